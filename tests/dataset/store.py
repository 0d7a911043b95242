#!/usr/bin/env python3
"""An S3 store on 127.0.0.1 for tests: moto's, which knows one key and checks its signatures. The bucket is `fleet`.

Prints `port`, `id` and `secret` as JSON; then does one command a line of its standard input, and answers each with a line of JSON:

    keys              the names of all objects
    fail METHOD N     answers 503 to the next N requests with this method
    break NAME        cuts off the content of an object

What not: https, a time that is off.
"""
import json
import os
import sys
import threading

# The requests that set it up; from then on a request without a right key is refused.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"

import boto3
from moto.backends import get_backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

failures = {}
inside = DomainDispatcherApplication(create_backend_app)


def store(environ, start_response):
    method = environ["REQUEST_METHOD"]
    if failures.get(method, 0) > 0:
        failures[method] -= 1
        start_response("503 Slow Down", [("Content-Type", "application/xml")])
        return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
    return inside(environ, start_response)


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


server = make_server("127.0.0.1", 0, store, threaded=True, request_handler=Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
nobody = {"endpoint_url": f"http://127.0.0.1:{server.port}", "region_name": "us-east-1", "aws_access_key_id": "x",
          "aws_secret_access_key": "x"}
users = boto3.client("iam", **nobody)
users.create_user(UserName="fathom")
all_of_s3 = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
users.put_user_policy(UserName="fathom", PolicyName="all", PolicyDocument=json.dumps(all_of_s3))
key = users.create_access_key(UserName="fathom")["AccessKey"]
boto3.client("s3", **nobody).create_bucket(Bucket="fleet")
print(json.dumps({"port": server.port, "id": key["AccessKeyId"], "secret": key["SecretAccessKey"]}), flush=True)
for line in sys.stdin:
    command, *words = line.split()
    [account] = [found for found in get_backend("s3").values() if found["aws"].buckets]
    objects = account["aws"].buckets["fleet"].keys
    if command == "fail":
        failures[words[0]] = int(words[1])
    elif command == "break":
        found = objects[words[0]]
        found.value = found.value[:len(found.value) // 2]
    print(json.dumps(sorted(objects.keys())), flush=True)
os._exit(0)
