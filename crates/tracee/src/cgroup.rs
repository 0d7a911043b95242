//! `/proc/PID/cgroup`: the systemd unit, container and pod of a process (format: cgroups(7)).
//!
//! What not: names of containers and pods, which only files of their runtime tell. Assumption: the text may be hostile; whoever may
//! make cgroups names them.
//!
//! Source: the kubelet's names of cgroups (`pkg/kubelet/cm`).

/// The fields that the path of a cgroup gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cgroup {
    /// The path; empty where it is the root.
    pub path: String,
    /// Innermost systemd service or scope, unless that is a container's.
    pub unit: Option<String>,
    /// Id of its Kubernetes pod.
    pub pod: Option<String>,
    /// Id of its container.
    pub container: Option<String>,
}

impl Cgroup {
    /// From the text of the file.
    #[must_use]
    pub fn parse(text: &str) -> Cgroup {
        // `NUMBER:CONTROLLERS:/PATH`: version 2 of cgroups has one line, without controllers; of version 1 some hierarchies may have
        // the root only. The longest path says most.
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let path = paths.map(|path| path.trim_end_matches('/')).max_by_key(|path| path.len());
        let path = path.unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is_unit = |part: &&&str| part.ends_with(".service") || part.ends_with(".scope");
        let unit = parts.iter().rev().find(is_unit).filter(|part| container_id(part).is_none());
        Cgroup {
            path: path.to_owned(),
            unit: unit.map(|part| (*part).to_owned()),
            pod: parts.iter().rev().find_map(|part| pod_id(part)),
            container: parts.iter().rev().find_map(|part| container_id(part)),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "11111111-2222-3333-4444-555555555555";

    fn of(text: &str) -> (Option<String>, Option<String>, Option<String>) {
        let found = Cgroup::parse(text);
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
}
