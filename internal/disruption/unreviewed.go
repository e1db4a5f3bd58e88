package disruption

import (
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// place: a reviewer must be able to read the contents of files there.
type place struct {
	// the rest of a sentence that begins with the path
	why string
	// directories, files, file names in any directory, and parts of paths
	below, exact, names, within []string
}

// reviewedPlaces: here the content of a file is code, or decides who may do what. Whoever has the public key of a
// repository can write ciphertext, so that only what a reviewer reads may be there.
var reviewedPlaces = []place{
	{why: "programs are run from its directory", below: []string{
		"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/bin", "/opt/cni/bin",
		"/opt/local/bin", "/usr/libexec", "/usr/local/libexec",
	}},
	{why: "systemd runs what it says", below: []string{
		"/etc/systemd/system", "/etc/systemd/user", "/etc/systemd/system-generators", "/etc/systemd/user-generators",
		"/etc/systemd/system-environment-generators", "/run/systemd/system", "/run/systemd/generator",
		"/etc/systemd/system.conf.d", "/etc/systemd/system.control", "/etc/containers/systemd", "/etc/sysusers.d",
		"/etc/tmpfiles.d", "/usr/share/containers/systemd", "/etc/init.d", "/etc/rc.d",
	}, exact: []string{"/etc/systemd/system.conf", "/etc/rc.local"}, within: []string{
		"/.config/systemd/", "/.config/containers/systemd/",
	}},
	{
		why: "it decides who may log in", below: []string{"/etc/pam.d", "/etc/security", "/etc/ssh/sshd_config.d"},
		exact:  []string{"/etc/ssh/sshd_config", "/etc/nsswitch.conf"},
		names:  []string{"authorized_keys", "authorized_keys2", ".rhosts", ".shosts"},
		within: []string{"/authorized_keys.d/", "/.ssh/rc"},
	},
	{
		why: "it decides who may become root", below: []string{"/etc/sudoers.d", "/etc/polkit-1", "/etc/dbus-1"},
		exact: []string{"/etc/sudoers", "/etc/doas.conf"},
	},
	{why: "cron or logrotate runs what it says", below: []string{
		"/etc/cron.d", "/etc/cron.hourly", "/etc/cron.daily", "/etc/cron.weekly", "/etc/cron.monthly",
		"/var/spool/cron", "/var/spool/at", "/etc/logrotate.d",
	}, exact: []string{"/etc/crontab", "/etc/anacrontab", "/etc/logrotate.conf"}},
	{why: "the kernel or udev runs what it says", below: []string{
		"/etc/udev", "/etc/modprobe.d", "/etc/modules-load.d", "/etc/sysctl.d", "/boot", "/etc/grub.d",
		"/etc/NetworkManager/dispatcher.d", "/etc/dracut.conf.d", "/etc/kernel", "/etc/initramfs-tools",
	}, exact: []string{"/etc/sysctl.conf", "/etc/default/grub"}},
	{why: "the kubelet runs what it says", below: []string{
		"/etc/kubernetes/manifests", "/etc/kubernetes/static-pod-resources", "/var/lib/rancher/k3s/server/manifests",
		"/var/lib/rancher/k3s/agent/pod-manifests", "/var/lib/rancher/rke2/server/manifests",
		"/var/lib/rancher/rke2/agent/pod-manifests",
	}},
	{why: "it has accounts", exact: []string{
		"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/login.defs",
	}, below: []string{"/etc/userdb"}},
	{why: "every program or shell reads it when it starts", below: []string{
		"/etc/ld.so.conf.d", "/etc/profile.d", "/etc/environment.d", "/lib", "/lib64", "/usr/lib", "/usr/lib64",
		"/usr/local/lib", "/usr/local/lib64", "/etc/zsh", "/etc/skel", "/etc/bash_completion.d",
	}, exact: []string{
		"/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.cache", "/etc/profile", "/etc/environment", "/etc/bashrc",
		"/etc/bash.bashrc", "/etc/zshrc", "/etc/zshenv",
	}, names: []string{".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv"}},
	{why: "it decides which images, packages and certificates are trusted", below: []string{
		"/etc/yum.repos.d", "/etc/apt", "/etc/ostree/remotes.d", "/etc/pki/rpm-gpg",
		"/etc/containers/registries.conf.d", "/etc/containers/registries.d", "/etc/crio", "/etc/pki/ca-trust",
		"/etc/pki/tls/certs", "/etc/ssl/certs", "/usr/local/share/ca-certificates", "/usr/share/pki",
	}, exact: []string{
		"/etc/containers/registries.conf", "/etc/containers/policy.json", "/etc/containerd/config.toml",
		"/etc/docker/daemon.json", "/etc/rancher/k3s/registries.yaml", "/etc/rancher/rke2/registries.yaml",
	}, names: []string{"hosts.toml"}},
}

func (p place) has(file string) bool {
	for _, dir := range p.below {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	for _, name := range p.exact {
		if file == name || file == name+"-" { // the copies that the tools for accounts make
			return true
		}
	}
	for _, part := range p.within {
		if strings.Contains(file, part) {
			return true
		}
	}
	for _, name := range p.names {
		if path.Base(file) == name {
			return true
		}
	}
	return false
}

// Unreviewed returns the files of a flat config with contents that no reviewer can read, encrypted or of a Secret or a
// ConfigMap, where contents are code or decide who may do what. The owner of a pool can allow paths.
func Unreviewed(c machineconfig.Config) []Refusal {
	var out []Refusal
	hidden := map[string]string{}
	st := c.Ignition.Storage
	for _, f := range st.Files {
		source := f.Contents.Source
		if source == nil || !machineconfig.IsUnresolved(*source) {
			continue
		}
		what := "its content comes from a Secret or a ConfigMap"
		if content, _, err := machineconfig.SecretsOf(f.Contents); err == nil && content.Format != "" {
			what = "its content is encrypted"
		}
		hidden[f.Path] = what
		why := reviewedWhy(f.Path)
		if why == "" && f.Mode != nil && *f.Mode&0o111 != 0 {
			why = "its mode makes it a program"
		}
		if why != "" {
			out = append(out, unreviewed(KindFile, f.Path, what, why))
		}
	}
	for _, l := range st.Links {
		why := reviewedWhy(l.Path + "/x") // a link to a directory, or to a file
		if direct := reviewedWhy(l.Path); direct != "" {
			why = direct
		}
		if why == "" || l.Target == nil {
			continue
		}
		target := *l.Target
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(l.Path), target)
		}
		target = path.Clean(target)
		for _, f := range st.Files {
			if what := hidden[f.Path]; what != "" && (f.Path == target || strings.HasPrefix(f.Path, target+"/")) {
				out = append(out, unreviewed(KindLink, l.Path, "it leads to "+f.Path+", "+
					strings.Replace(what, "its content", "whose content", 1), why))
			}
		}
	}
	return out
}

// reviewedWhy is "" if the content need not be readable in a review.
func reviewedWhy(file string) string {
	for _, p := range reviewedPlaces {
		if p.has(file) {
			return p.why
		}
	}
	return ""
}

func unreviewed(kind ChangeKind, name, what, why string) Refusal {
	return Refusal{Field: name, Kind: kind, Name: name, Why: what + ", which no reviewer can read, and " + why}
}
