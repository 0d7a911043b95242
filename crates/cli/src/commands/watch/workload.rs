//! The owner of a process: its systemd unit, container, pod and image, and its number in its own PID namespace.
//!
//! What for: its cgroup tells unit, container and pod; files of container runtimes tell their names. What not: asking a
//! runtime or an API server. What cannot be read stays unknown.
//!
//! Sources: annotations of containerd (`pkg/cri/annotations`) and CRI-O; `config.v2.json` of Docker; podman-run(1) about `/run/.containerenv`.

use std::io::Read;
use std::path::Path;

use base::Pid;
use serde_json::{Map, Value, json};
use tracee::cgroup::Cgroup;

/// What is known of a process besides its name. Keys of `--select`, labels of the dataset and of metrics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// Path of its cgroup; empty where it is the root, or not known.
    pub cgroup: String,
    /// Innermost systemd service or scope, unless that is a container's.
    pub unit: Option<String>,
    /// Name of its Kubernetes pod, else the pod's id.
    pub pod: Option<String>,
    /// Namespace of the pod.
    pub namespace: Option<String>,
    /// Name of its container, else the id.
    pub container: Option<String>,
    /// Image of the container.
    pub image: Option<String>,
    /// Its number in the innermost PID namespace, if that is another one than ours.
    pub inner_pid: Option<i32>,
}

/// The roots below which runtimes keep their files: the host's, where we are in a container with the host's processes.
const ROOTS: [&str; 2] = ["/proc/1/root", "/"];
/// Larger files are no description of a container.
const LARGEST: u64 = 1 << 20;

impl Workload {
    /// Of a running process.
    pub fn of(pid: Pid) -> Workload {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let Cgroup { path, unit, pod, container } =
            Cgroup::parse(&read("cgroup").unwrap_or_default());
        let inner_pid = inner_pid(&read("status").unwrap_or_default());
        let (namespace, image) = (None, None);
        let mut found =
            Workload { cgroup: path, unit, pod, namespace, container, image, inner_pid };
        let Some(id) = found.container.clone() else { return found };
        for root in ROOTS {
            for file in descriptions(Path::new(root), &id) {
                if let Some(text) = read_small(Path::new(&file)) {
                    found.name(&text);
                }
            }
        }
        // In the container, which may write anything into it: only its own name can be wrong by that.
        let inside = format!("/proc/{pid}/root/run/.containerenv");
        if found.cgroup.contains("libpod-")
            && let Some(text) = read_small(Path::new(&inside))
        {
            found.name_by_podman(&text);
        }
        found
    }

    /// Takes names from the description that a runtime wrote of the container.
    fn name(&mut self, text: &str) {
        let Ok(described) = serde_json::from_str::<Value>(text) else { return };
        // Of containerd and CRI-O `annotations`; of Docker `Config.Labels`, which have the kubelet's names.
        let places = [&described["annotations"], &described["Config"]["Labels"]];
        let first = |keys: &[&str]| {
            let mut values = places.iter().flat_map(|place| keys.iter().map(|key| &place[*key]));
            values
                .find_map(|value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
        };
        let docker =
            |value: &Value| value.as_str().map(|name| name.trim_start_matches('/').to_owned());
        let container =
            first(&["io.kubernetes.cri.container-name", "io.kubernetes.container.name"]);
        let image = first(&[
            "io.kubernetes.cri.image-name",
            "io.kubernetes.cri-o.UserRequestedImage",
            "io.kubernetes.cri-o.ImageName",
        ]);
        let mut take = |to: fn(&mut Workload) -> &mut Option<String>, found: Option<String>| {
            if found.is_some() {
                *to(self) = found;
            }
        };
        take(|its| &mut its.container, container.or_else(|| docker(&described["Name"])));
        take(|its| &mut its.image, image.or_else(|| docker(&described["Config"]["Image"])));
        let pod = first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]);
        take(|its| &mut its.pod, pod);
        let namespace =
            first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]);
        take(|its| &mut its.namespace, namespace);
    }

    /// Takes names from the file that podman puts into a container: `name="web"`.
    fn name_by_podman(&mut self, text: &str) {
        let value = |name: &str| {
            let text = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            Some(text.trim_matches('"').to_owned()).filter(|text| !text.is_empty())
        };
        self.container = value("name").or(self.container.take());
        self.image = value("image").or(self.image.take());
    }

    /// Its names, by the keys of `--select`, without those that are not known.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("unit", &self.unit),
            ("namespace", &self.namespace),
            ("pod", &self.pod),
            ("container", &self.container),
            ("image", &self.image),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?)))
    }

    /// All that is known, for the log and the file next to the result.
    pub fn json(&self, pid: Pid, program: &str) -> Value {
        let names = self.names().map(|(key, value)| (key.to_owned(), json!(value)));
        let mut all: Map<String, Value> = names.collect();
        all.insert("program".to_owned(), json!(program));
        all.insert("pid".to_owned(), json!(pid.0));
        if let Some(inner) = self.inner_pid {
            all.insert("inner_pid".to_owned(), json!(inner));
        }
        if !self.cgroup.is_empty() {
            all.insert("cgroup".to_owned(), json!(self.cgroup));
        }
        Value::Object(all)
    }
}

/// Where runtimes describe the container with this id: containerd, CRI-O and podman, Docker.
fn descriptions(root: &Path, id: &str) -> Vec<std::path::PathBuf> {
    let tasks = root.join("run/containerd/io.containerd.runtime.v2.task");
    let spaces = std::fs::read_dir(tasks).into_iter().flatten().filter_map(Result::ok);
    let mut files: Vec<_> = spaces.map(|space| space.path().join(id).join("config.json")).collect();
    let storage = "containers/storage/overlay-containers";
    files.extend(
        ["run", "var/lib"]
            .map(|at| root.join(at).join(storage).join(id).join("userdata/config.json")),
    );
    files.push(root.join("var/lib/docker/containers").join(id).join("config.v2.json"));
    files
}

/// A text that others wrote, perhaps to harm us: no device, no pipe, and not longer than it may be, whatever its length says.
fn read_small(file: &Path) -> Option<String> {
    let (file, _) = sys::map::open_regular(file).ok()?;
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The last of `NSpid:`, where there are several: one for each PID namespace from ours inwards.
fn inner_pid(status: &str) -> Option<i32> {
    let numbers = tracee::status::field(status, "NSpid:")?;
    let (_, inner) = numbers.rsplit_once(char::is_whitespace)?;
    inner.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn runtimes_name_containers_pods_and_images() {
        let named = |text: &str| {
            let mut found = Workload { container: Some(ID.to_owned()), ..Workload::default() };
            found.name(text);
            found.name_by_podman(text);
            found.names().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        let containerd = r#"{"annotations": {"io.kubernetes.cri.container-name": "web",
            "io.kubernetes.cri.sandbox-name": "shop-7", "io.kubernetes.cri.sandbox-namespace": "prod",
            "io.kubernetes.cri.image-name": "registry/shop:3"}}"#;
        let all = "namespace=prod pod=shop-7 container=web image=registry/shop:3";
        assert_eq!(named(containerd), all);
        let crio = r#"{"annotations": {"io.kubernetes.container.name": "web", "io.kubernetes.pod.name": "shop-7",
            "io.kubernetes.pod.namespace": "prod", "io.kubernetes.cri-o.ImageName": "registry/shop:3"}}"#;
        assert_eq!(named(crio), all);
        let docker = r#"{"Name": "/web", "Config": {"Image": "shop:3", "Labels": {}}}"#;
        assert_eq!(named(docker), "container=web image=shop:3");
        let podman = "engine=\"podman-4.3.1\"\nname=\"web\"\nimage=\"localhost/shop:3\"\n";
        assert_eq!(named(podman), "container=web image=localhost/shop:3");
        for nothing in ["", "{", "[]", "{\"annotations\": 3}", "name=\n"] {
            assert_eq!(named(nothing), format!("container={ID}"), "{nothing}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_innermost_namespace() {
        assert_eq!(inner_pid("Name:\tx\nNSpid:\t4711\t17\t1\n"), Some(1));
        assert_eq!(inner_pid("NSpid:\t4711\n"), None);
        assert_eq!(inner_pid(""), None);
    }

    #[test]
    fn files_of_a_runtime_are_found_by_the_id() {
        let root = std::env::temp_dir().join(format!("fathom-runtime-{}", std::process::id()));
        let place = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}");
        std::fs::create_dir_all(root.join(&place)).unwrap();
        let found = descriptions(&root, ID);
        assert!(found.contains(&root.join(place).join("config.json")), "{found:?}");
        assert!(found.iter().all(|file| file.to_string_lossy().contains(ID)));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
