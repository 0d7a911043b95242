//! The owner of a process: its systemd unit, container, pod and image, and its number in its own PID namespace.
//!
//! What for: the path of its cgroup tells unit, container and pod; files of container runtimes tell their names. What not: asking a
//! runtime or an API server. What cannot be read stays unknown.
//!
//! Sources: cgroups(7); the kubelet's names of cgroups (`pkg/kubelet/cm`); annotations of containerd (`pkg/cri/annotations`) and
//! CRI-O; `config.v2.json` of Docker; podman-run(1) about `/run/.containerenv`.

use std::io::Read;
use std::path::Path;

use base::Pid;
use serde_json::{Map, Value, json};

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
        let (mut found, id) = Workload::of_cgroup(&read("cgroup").unwrap_or_default());
        found.inner_pid = inner_pid(&read("status").unwrap_or_default());
        let Some(id) = id else { return found };
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

    /// The fields that the path of its cgroup gives, and the container's id.
    fn of_cgroup(text: &str) -> (Workload, Option<String>) {
        // `NUMBER:CONTROLLERS:/PATH`: version 2 of cgroups has one line, without controllers; of version 1 some hierarchies may have
        // the root only. The longest path says most.
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let path = paths.map(|path| path.trim_end_matches('/')).max_by_key(|path| path.len());
        let path = path.unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let id = parts.iter().rev().find_map(|part| container_id(part));
        let pod = parts.iter().rev().find_map(|part| pod_id(part));
        let is_unit = |part: &&&str| part.ends_with(".service") || part.ends_with(".scope");
        let unit = parts.iter().rev().find(is_unit).filter(|part| container_id(part).is_none());
        let found = Workload {
            cgroup: path.to_owned(),
            unit: unit.map(|part| (*part).to_owned()),
            container: id.clone(),
            pod,
            ..Workload::default()
        };
        (found, id)
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

/// `cri-containerd-ID.scope`, `docker-ID.scope`, `libpod-ID.scope`, `crio-ID.scope` or `ID`, with 64 hex digits.
fn container_id(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit('-').next().unwrap_or(name);
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// `kubepods-burstable-podUID.slice`, where systemd makes the dashes of UID to `_`, or `podUID`.
fn pod_id(part: &str) -> Option<String> {
    let (before, id) = part.strip_suffix(".slice").unwrap_or(part).rsplit_once("pod")?;
    let is_pod = before.is_empty() || before.starts_with("kubepods");
    (is_pod && id.len() == 36).then(|| id.replace('_', "-"))
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
    const POD: &str = "11111111-2222-3333-4444-555555555555";

    fn of(text: &str) -> (Option<String>, Option<String>, Option<String>) {
        let found = Workload::of_cgroup(text).0;
        (found.unit, found.container, found.pod)
    }

    #[test]
    fn a_cgroup_names_unit_container_and_pod() {
        let unit = |name: &str| (Some(name.to_owned()), None, None);
        let id = || Some(ID.to_owned());
        assert_eq!(of("0::/system.slice/postgresql.service\n"), unit("postgresql.service"));
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/firefox.service\n";
        assert_eq!(of(user), unit("firefox.service"));
        assert_eq!(of("0::/user.slice/user-0.slice/session-3.scope"), unit("session-3.scope"));
        let old = "5:cpu,cpuacct:/\n1:name=systemd:/system.slice/cron.service\n0::/\n";
        assert_eq!(of(old), unit("cron.service"));
        assert_eq!(of(&format!("0::/system.slice/docker-{ID}.scope")), (None, id(), None));
        assert_eq!(of(&format!("0::/docker/{ID}")), (None, id(), None));
        assert_eq!(
            of(&format!("0::/machine.slice/libpod-{ID}.scope/container")),
            (None, id(), None)
        );
        let pod = || Some(POD.to_owned());
        let slice = POD.replace('-', "_");
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods/besteffort/pod{POD}/{ID}"),
            // As a container with a cgroup namespace of its own sees its neighbour.
            format!("/../../kubepods-pod{slice}.slice/crio-{ID}.scope"),
        ] {
            assert_eq!(of(&format!("0::{path}\n")), (None, id(), pod()), "{path}");
        }
        let mixed = format!("9:name=systemd:/\n4:memory:/docker/{ID}\n0::/\n");
        assert_eq!(of(&mixed), (None, id(), None));
        for nothing in ["", "0::/\n", "nonsense", "0::/a/b/podcast\n"] {
            assert_eq!(of(nothing), (None, None, None), "{nothing}");
        }
    }

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
