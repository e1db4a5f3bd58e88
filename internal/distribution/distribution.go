package distribution

import (
	"regexp"
	"slices"
)

// Kubernetes describes how a distribution of Kubernetes runs the kubelet.
type Kubernetes struct {
	Name string
	// Units run the kubelet. A node has one of them.
	Units []string
	// Kubeconfigs have the kubelet's identity.
	Kubeconfigs []string
	// Live are paths whose changes need no reboot.
	Live []Live
}

// Live is a file or a directory whose changes need no reboot.
type Live struct {
	// Path of a file, or of a directory with everything below it.
	Path string
	// Restart: the node's kubelet unit reads the path only when it starts.
	Restart bool
}

// kubernetes: OpenShift comes first, because it has another file at the path of kubeadm's kubeconfig.
var kubernetes = []Kubernetes{
	{
		Name:        "OpenShift without the Machine Config Operator, and kubelets that you set up yourself",
		Units:       []string{"kubelet.service"},
		Kubeconfigs: []string{"/var/lib/kubelet/kubeconfig"},
	},
	{
		Name: "kubeadm", Units: []string{"kubelet.service"}, Kubeconfigs: []string{"/etc/kubernetes/kubelet.conf"},
		Live: []Live{{"/etc/containerd/certs.d", false}}, // containerd reads these files for each pull.
	},
	{
		Name: "k3s", Units: []string{"k3s.service", "k3s-agent.service"},
		Kubeconfigs: []string{"/var/lib/rancher/k3s/agent/kubelet.kubeconfig"},
		Live: []Live{
			{"/etc/rancher/k3s/registries.yaml", true},
			{"/etc/rancher/k3s/config.yaml", true},
			{"/etc/rancher/k3s/config.yaml.d", true},
		},
	},
	{
		Name: "RKE2", Units: []string{"rke2-server.service", "rke2-agent.service"},
		Kubeconfigs: []string{"/var/lib/rancher/rke2/agent/kubelet.kubeconfig"},
		Live: []Live{
			{"/etc/rancher/rke2/registries.yaml", true},
			{"/etc/rancher/rke2/config.yaml", true},
			{"/etc/rancher/rke2/config.yaml.d", true},
		},
	},
	{
		Name: "MicroK8s", Units: []string{"snap.microk8s.daemon-kubelite.service"},
		Kubeconfigs: []string{"/var/snap/microk8s/current/credentials/kubelet.config"},
		Live:        []Live{{"/var/snap/microk8s/current/args/certs.d", false}},
	},
	{
		Name: "k0s", Units: []string{"k0sworker.service", "k0scontroller.service"},
		Kubeconfigs: []string{"/var/lib/k0s/kubelet.conf"},
	},
}

// Distributions returns the distributions of Kubernetes, in the order in which the daemon searches their kubeconfigs.
func Distributions() []Kubernetes { return slices.Clone(kubernetes) }

// KubeletUnits returns every unit that runs a kubelet, once.
func KubeletUnits() (out []string) {
	for _, k := range kubernetes {
		for _, u := range k.Units {
			if !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
	}
	return out
}

// OtherUnits returns the units of which a node may have one instead of the given one, such as k3s-agent.service for
// k3s.service.
func OtherUnits(unit string) []string {
	for _, k := range kubernetes {
		if slices.Contains(k.Units, unit) {
			return slices.DeleteFunc(slices.Clone(k.Units), func(u string) bool { return u == unit })
		}
	}
	return nil
}

// IsOptional reports whether a node may lack a unit that the default disruption policy reloads: one with containerd has
// files below /etc/containers for Podman, and no CRI-O.
func IsOptional(unit string) bool { return unit == "crio.service" }

// OS is an operating system.
type OS struct {
	Name string
	// Releases are from os-release(5). RHEL CoreOS has the ID of RHEL since OpenShift 4.19.
	Releases []Release
	// BinaryPath can have the daemon's binary: its file system is writable, and SELinux allows systemd to execute it.
	BinaryPath string
	// KeysReader makes sshd accept the keys in KeysFragment; empty if sshd reads KeysFile only.
	KeysReader string
	// MergesKeys: KeysReader writes KeysFile from KeysFragment and from the files of other programs beside it, so that
	// it must run after each change of KeysFragment. It writes KeysFragment again, with another mode.
	MergesKeys      bool
	KernelArguments Tool
	RebootRequired  string
	// TrustStore is for all programs.
	TrustStore TrustStore
	// Updater are the units of the system's own updater. A config that sets the OS image must mask them, or coordinate
	// them with the daemon.
	Updater []string
}

// Release is a pair of values in os-release(5).
type Release struct {
	ID string
	// Variant is VARIANT_ID; empty: any.
	Variant string
}

// TrustStore is how an operating system gets certificates of its administrator.
type TrustStore struct {
	Dir, Suffix string
	// Program reads them again. It is in /usr/sbin or /usr/bin.
	Program string
	// Single: each file has one certificate.
	Single bool
}

// TrustReaders returns the services of container runtimes, which read the trust store only when they start.
func TrustReaders() []string { return []string{"crio.service", "containerd.service"} }

// Tool changes a part of the OS.
type Tool struct {
	// Name of the program or file.
	Name string
	// Method is how the daemon uses the tool. If it is empty, the daemon refuses configs that change this part of the
	// OS.
	Method Method
}

// Method is how the daemon changes the kernel arguments of an operating system.
type Method string

// The methods of changing an operating system.
const (
	// RPMOSTree stages a deployment with rpm-ostree.
	RPMOSTree Method = "rpm-ostree"
	// UpdateGrub writes a file in /etc/default/grub.d and runs update-grub.
	UpdateGrub Method = "update-grub"
	// OEMGrub writes a block into the grub.cfg of Flatcar's OEM partition.
	OEMGrub Method = "oem-grub"
)

const (
	usrLocal = "/usr/local/bin/machine-config-daemon"
	opt      = "/opt/bin/machine-config-daemon"
	zincati  = "zincati.service"
	// prints the files in authorized_keys.d for sshd, as its AuthorizedKeysCommand
	sshKeyDir = "/usr/libexec/ssh-key-dir"
	// writes ~/.ssh/authorized_keys from the files in authorized_keys.d
	updateSSHKeys = "/usr/bin/update-ssh-keys"
)

var (
	updateCATrust = TrustStore{Dir: "/etc/pki/ca-trust/source/anchors", Suffix: ".crt", Program: "update-ca-trust"}
	debianTrust   = TrustStore{
		Dir: "/usr/local/share/ca-certificates", Suffix: ".crt", Program: updateCertificates,
		Single: true,
	}
	flatcarTrust = TrustStore{Dir: "/etc/ssl/certs", Suffix: ".pem", Program: updateCertificates, Single: true}
	suseTrust    = TrustStore{Dir: "/etc/pki/trust/anchors", Suffix: ".crt", Program: updateCertificates}
)

const updateCertificates = "update-ca-certificates"

var systems = []OS{
	{
		Name: "Fedora CoreOS", TrustStore: updateCATrust, Releases: []Release{{
			"fedora",
			"coreos",
		}}, BinaryPath: usrLocal,
		KeysReader: sshKeyDir, KernelArguments: Tool{"rpm-ostree", RPMOSTree}, Updater: []string{zincati},
	},
	{
		Name: "RHEL CoreOS, CentOS Stream CoreOS", TrustStore: updateCATrust,
		Releases: []Release{
			{ID: "rhcos"},
			{ID: "scos"},
			{"rhel", "coreos"},
			{"centos", "coreos"},
		}, BinaryPath: usrLocal, KeysReader: sshKeyDir, KernelArguments: Tool{"rpm-ostree", RPMOSTree},
	},
	{
		Name: "Flatcar", TrustStore: flatcarTrust, Releases: []Release{{ID: "flatcar"}}, BinaryPath: opt,
		KeysReader: updateSSHKeys, MergesKeys: true, KernelArguments: Tool{
			"/oem/grub.cfg",
			OEMGrub,
		}, RebootRequired: "/run/reboot-required", Updater: []string{"update-engine.service", "locksmithd.service"},
	},
	{
		Name: "openSUSE MicroOS, SLE Micro", TrustStore: suseTrust,
		Releases: []Release{
			{ID: "opensuse-microos"},
			{ID: "sle-micro"},
			{ID: "sl-micro"},
		}, BinaryPath: usrLocal, KernelArguments: Tool{Name: "transactional-update"}, RebootRequired: "/run/reboot-needed", Updater: []string{"transactional-update.timer", "rebootmgr.service"},
	},
	{
		Name: "Debian, Ubuntu", TrustStore: debianTrust, Releases: []Release{{ID: "debian"}, {ID: "ubuntu"}},
		BinaryPath: usrLocal, KernelArguments: Tool{
			"update-grub",
			UpdateGrub,
		}, RebootRequired: "/run/reboot-required", Updater: []string{"unattended-upgrades.service", "apt-daily-upgrade.timer"},
	},
	{
		Name: "RHEL, Fedora, CentOS Stream", TrustStore: updateCATrust,
		Releases: []Release{
			{ID: "rhel"},
			{ID: "fedora"},
			{ID: "centos"},
			{ID: "rocky"},
			{ID: "almalinux"},
		}, BinaryPath: usrLocal, KernelArguments: Tool{Name: "grubby"}, Updater: []string{"dnf-automatic.timer"},
	},
}

// Systems returns the operating systems. The release with a variant comes before the same one without a variant.
func Systems() []OS { return slices.Clone(systems) }

// SystemOf returns the operating system with an ID and VARIANT_ID of os-release(5), and whether the table has it.
func SystemOf(id, variant string) (OS, bool) {
	for _, s := range systems {
		if slices.ContainsFunc(s.Releases, func(r Release) bool {
			return r.ID == id && (r.Variant == "" || r.Variant == variant)
		}) {
			return s, true
		}
	}
	return OS{}, false
}

// The files below a home directory in which a config's SSH keys can be.
const (
	// KeysFile is the file that OpenSSH reads by default.
	KeysFile = ".ssh/authorized_keys"
	// KeysFragment is the file that Ignition writes by default. OpenSSH reads it only with the help of a program.
	KeysFragment = ".ssh/authorized_keys.d/ignition"
)

// KeysFileOf returns where a machine has the SSH keys of its config: KeysFragment if it has its system's program for
// it, and else KeysFile, which every sshd reads.
func (s OS) KeysFileOf(has func(program string) bool) string {
	if s.KeysReader != "" && has(s.KeysReader) {
		return KeysFragment
	}
	return KeysFile
}

// KeysCommands returns the programs that sshd runs to read KeysFragment, once each.
func KeysCommands() (out []string) {
	for _, s := range systems {
		if s.KeysReader != "" && !s.MergesKeys && !slices.Contains(out, s.KeysReader) {
			out = append(out, s.KeysReader)
		}
	}
	return out
}

// ArgumentTools returns the tools with which the daemon sets kernel arguments, once each.
func ArgumentTools() (out []string) {
	for _, s := range systems {
		if t := s.KernelArguments; t.Method != "" && !slices.Contains(out, t.Name) {
			out = append(out, t.Name)
		}
	}
	return out
}

// plainArgument has no characters that mean something in a shell, in GRUB's script language or in a regular expression
// of grubby.
var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.,:=/@%+~!-]*$`)

// PlainArgument reports whether a kernel argument can be in a file of GRUB. GRUB has two layers of quotes, and the
// kernel reports a quoted value in another form than it was written, so every method but RPMOSTree sets plain arguments
// only.
func PlainArgument(argument string) bool { return plainArgument.MatchString(argument) }

// PlainOnly is a text that says why a machine refuses an argument that is not plain, as the end of a sentence.
const PlainOnly = "because files of GRUB hold only arguments of letters, digits and _.,:=/@%+~!- that begin with a " +
	"letter, a digit or _"

// OddArguments returns the arguments of after that are not plain and that before does not have, once each.
func OddArguments(before, after []string) (out []string) {
	for _, a := range after {
		if !PlainArgument(a) && !slices.Contains(before, a) && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
