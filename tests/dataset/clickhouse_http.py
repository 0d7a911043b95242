#!/usr/bin/env python3
"""ClickHouse's HTTP interface in front of its own engine (chDB), for tests: prints its port, answers on 127.0.0.1.

What not: a server for anything else. A query that asks for the program 'dies' ends it without an answer.
"""

import http.server
import os

import chdb


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "'dies'" in query:
            os._exit(1)
        try:
            status, answer = 200, str(chdb.query(query)).encode()
        except RuntimeError as error:
            status, answer = 500, str(error).encode()
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
