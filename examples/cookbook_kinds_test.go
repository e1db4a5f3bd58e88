package examples_test

// kind is one thing that somebody wants of a machine.
type kind struct {
	// want completes "I want …".
	want string
	// section of other people's documentation that shows it.
	section string
	// document of the cookbook, and the pool that it is looked at in; none for cluster/.
	document, pool string
	// at is the place in the pool's config, and is what stands there, or a part of it.
	at, is string
}

// group is a heading of the index.
type group struct {
	title string
	kinds []kind
}

var groups = []group{people, files, units, system, disks, systems, inputs, overlays, rollouts}

func kinds() (all []kind) {
	for _, g := range groups {
		all = append(all, g.kinds...)
	}
	return all
}

// Where things are shown.
const (
	ofButane      = "Butane: "
	ofFedora      = "Fedora CoreOS: "
	ofFlatcar     = "Flatcar: "
	ofBunsen      = "Bunsen"
	specification = "Butane's specification"
)

// butaneSections are the headings of examples.md of Butane 0.29 that hold examples.
var butaneSections = []string{
	"Users and groups", "Using password authentication", "SSH keys from local files", "Files", "Directory trees",
	"Filesystems and partitions", "Swap areas", "LUKS encrypted storage", "Mirrored boot disk", "systemd units",
	"Podman Quadlets", "GRUB password", "Merging Ignition Configs",
}

var people = group{"People", []kind{
	{"a key for the system's own user", ofButane + "Users and groups", "pools/worker/10-people.bu", "worker", "passwd.users[core].sshAuthorizedKeys", "ops@example.com"},
	{"an account with a UID, a home directory, a shell and groups", ofButane + "Users and groups", "pools/worker/10-people.bu", "worker", "passwd.users[ann].homeDir", "/var/home/ann"},
	{"a group with a GID", ofFedora + "Configuring Groups", "pools/worker/10-people.bu", "worker", "passwd.groups[operators].gid", "2000"},
	{"a system account for a service", ofButane + "Users and groups", "pools/worker/10-people.bu", "worker", "passwd.users[nodeexporter].system", "true"},
	{"to remove an account", specification, "pools/worker/10-people.bu", "worker", "passwd.users[carl].shouldExist", "false"},
	{"a password for the console", ofButane + "Using password authentication", "pools/worker/11-console.bu", "worker", "passwd.users[rescue].passwordHash", "$6$"},
	{"keys as files, one for each person", ofButane + "SSH keys from local files", "pools/worker/12-keys-from-files.bu", "worker", "passwd.users[bob].sshAuthorizedKeys", "ecdsa-sha2-nistp256"},
	{"keys without Butane", ofBunsen, "pools/worker/admins.yaml", "worker", "passwd.users[core].sshAuthorizedKeys", "ci@example.com"},
	{"sudo rules", ofFlatcar + "Hardening", "pools/worker/20-limits.bu", "worker", "storage.files[/etc/sudoers.d/operators].mode", "288"},
	{"SSH with keys only, and no logins of root", ofFlatcar + "Customizing sshd", "components/hardening/35-sshd.bu", "master", "storage.files[/etc/ssh/sshd_config.d/20-hardening.conf].contents", "PermitRootLogin no"},
	{"a login without a password on a serial console", ofButane + "systemd units", "pools/lab/autologin.bu", "lab", "systemd.units[serial-getty@ttyS0.service].dropins[autologin.conf].contents", "--autologin core"},
}}

var files = group{"Files, directories and links", []kind{
	{"a file with its text in the document", ofButane + "Files", "base/10-time.bu", "worker", "storage.files[/etc/chrony.conf].contents", "server ntp.example.com"},
	{"a file with an owner", ofButane + "Files", "pools/worker/20-limits.bu", "worker", "storage.files[/var/home/ann/.bashrc.d/kubectl.sh].user.name", "ann"},
	{"a file's text in a file of its own", ofButane + "Files", "base/30-registries.bu", "worker", "storage.files[/etc/containers/registries.conf.d/20-mirrors.conf].contents", "registry.example.com/docker"},
	{"a compressed file, with a hash of its contents", ofButane + "Files", "pools/worker/22-packed.bu", "worker", "storage.files[/etc/site/rings.conf].contents", "rx=4096"},
	{"a binary file", specification, "pools/worker/22-packed.bu", "worker", "storage.files[/etc/site/license.bin].contents", "\x00\x01\x02\x03site-license\xff"},
	{"to append lines to a system file", specification, "pools/worker/23-hosts.bu", "worker", "storage.files[/etc/hosts].append", "192.0.2.20 registry.example.com"},
	{"a file without contents", ofFedora + "Launching a user-level systemd unit", "pools/worker/52-user-unit.bu", "worker", "storage.files[/var/lib/systemd/linger/ann].mode", "420"},
	{"a whole directory of files", ofButane + "Directory trees", "pools/worker/24-monitoring.bu", "worker", "storage.files[/etc/monitoring/checks/disk.sh].mode", "493"},
	{"another mode for one file of a directory", ofButane + "Directory trees", "pools/worker/24-monitoring.bu", "worker", "storage.files[/etc/monitoring/targets.yaml].mode", "416"},
	{"modes and an owner for a whole directory", specification, "pools/worker/90-newest.bu", "worker", "storage.files[/var/lib/dashboards/node/cpu.json].user.id", "65534"},
	{"directories with owners", ofFedora + "Managing Files, Directories and Links", "pools/worker/25-alternatives.bu", "worker", "storage.directories[/var/lib/site].group.name", "operators"},
	{"a link", ofFedora + "Managing Files, Directories and Links", "pools/worker/25-alternatives.bu", "worker", "storage.links[/usr/local/bin/docker].target", "/usr/bin/podman"},
	{"to choose among the system's alternatives", ofFedora + "Setting alternatives", "pools/worker/25-alternatives.bu", "worker", "storage.links[/etc/alternatives/iptables].target", "/usr/sbin/iptables-nft"},
}}

var units = group{"Services", []kind{
	{"a service of my own", ofButane + "systemd units", "base/15-trust.bu", "worker", "systemd.units[site-ca-trust.service].enabled", "true"},
	{"to enable a system service", ofButane + "systemd units", "base/10-time.bu", "worker", "systemd.units[chronyd.service].enabled", "true"},
	{"units and drop-ins in files of their own", ofButane + "systemd units", "pools/worker/21-backup.bu", "worker", "systemd.units[backup-etc.service].dropins[10-nice.conf].contents", "Nice=19"},
	{"to run something every night", ofFlatcar + "Scheduling tasks with systemd timers", "pools/worker/21-backup.bu", "worker", "systemd.units[backup-etc.timer].contents", "OnCalendar="},
	{"to run a script", ofFedora + "Running a script at boot", "pools/worker/21-backup.bu", "worker", "storage.files[/usr/local/bin/backup-etc].contents", "tar -C /"},
	{"a drop-in for a system service", ofButane + "systemd units", "components/proxy/25-proxy.bu", "worker", "systemd.units[crio.service].dropins[99-proxy.conf].contents", "EnvironmentFile="},
	{"instances of a template unit", specification, "pools/worker/71-template.bu", "worker", "systemd.units[keep-log@kubelet.service].enabled", "true"},
	{"to mask services", ofFedora + "Node counting", "pools/worker/70-masks.bu", "worker", "systemd.units[rpm-ostree-countme.timer].mask", "true"},
	{"no OS updates except those from git", ofFedora + "Auto-Updates", "pools/worker/70-masks.bu", "worker", "systemd.units[zincati.service].mask", "true"},
	{"a container as a service", ofFedora + "Running Containers", "pools/worker/50-container.bu", "worker", "systemd.units[node-exporter.service].contents", "podman run"},
	{"a container as a quadlet", ofButane + "Podman Quadlets", "pools/worker/51-quadlet.bu", "worker", "storage.files[/etc/containers/systemd/registry-cache.container].contents", "[Container]"},
	{"a user's service, without a login", ofFedora + "Launching a user-level systemd unit", "pools/worker/52-user-unit.bu", "worker", "storage.links[/var/home/ann/.config/systemd/user/default.target.wants/tunnel.service].user.name", "ann"},
	{"crash dumps", ofFedora + "Debugging kernel crashes using kdump", "pools/worker/33-crash.bu", "worker", "systemd.units[kdump.service].enabled", "true"},
}}

var system = group{"System and network", []kind{
	{"time servers", ofFedora + "Time synchronization", "base/10-time.bu", "worker", "storage.files[/etc/chrony.conf].contents", "ntp.example.com"},
	{"a time zone", ofFedora + "Configuring time zone", "base/10-time.bu", "worker", "storage.links[/etc/localtime].target", "Europe/Berlin"},
	{"a keyboard", ofFedora + "Setting Keyboard Layout", "pools/gateway/10-gateway.bu", "gateway", "storage.files[/etc/vconsole.conf].contents", "KEYMAP=de"},
	{"persistent logs with a size limit", ofFlatcar + "Reading the system log", "base/20-logs.bu", "worker", "storage.directories[/var/log/journal].mode", "493"},
	{"kernel parameters", ofFedora + "Kernel tunables (sysctl)", "pools/worker/30-sysctl.bu", "worker", "storage.files[/etc/sysctl.d/90-site.conf].contents", "vm.max_map_count"},
	{"kernel modules, with options", ofFlatcar + "Loading kernel modules", "pools/worker/31-modules.bu", "worker", "storage.files[/etc/modprobe.d/site.conf].contents", "blacklist usb-storage"},
	{"kernel arguments", ofFedora + "Modifying Kernel Arguments", "pools/worker/32-kernel.bu", "worker", "kernelArguments", "transparent_hugepage=madvise"},
	{"a serial console", ofFedora + "Emergency console access", "pools/worker/32-kernel.bu", "worker", "kernelArguments", "console=ttyS0,115200n8"},
	{"no CPU mitigations", ofFedora + "Modifying Kernel Arguments", "pools/lab/debug/mitigations.bu", "lab", "kernelArguments", "mitigations=off"},
	{"a network connection", ofFedora + "Network Configuration", "pools/worker/40-network.bu", "worker", "storage.files[/etc/NetworkManager/system-connections/bond0.nmconnection].contents", "mode=802.3ad"},
	{"names for network interfaces", ofFedora + "How to Customize a NIC Name", "pools/worker/41-nic-names.bu", "worker", "storage.files[/etc/systemd/network/25-storage.link].contents", "Name=storage0"},
	{"name servers", ofFlatcar + "Configuring DNS", "pools/worker/42-dns.bu", "worker", "storage.files[/etc/systemd/resolved.conf.d/20-site.conf].contents", "DNS=192.0.2.53"},
	{"a proxy for everything", ofFedora + "Proxied Internet Access", "components/proxy/25-proxy.bu", "worker", "storage.files[/etc/site-proxy.env].contents", "HTTPS_PROXY="},
	{"a mirror of a registry", ofBunsen, "base/30-registries.bu", "worker", "storage.files[/etc/containers/registries.conf.d/20-mirrors.conf].contents", "docker.io"},
	{"certificate authorities for the system", ofFlatcar + "Custom certificate authorities", "base/15-trust.bu", "worker", "storage.files[/etc/pki/ca-trust/source/anchors/example-root.crt].contents", "BEGIN CERTIFICATE"},
	{"a certificate authority for Ignition itself", ofFedora + "Using a remote Ignition config", "pools/worker/80-ignition.bu", "worker", "ignition.security.tls.certificateAuthorities", "BEGIN CERTIFICATE"},
	{"a proxy for Ignition itself", ofFedora + "Using a remote Ignition config", "pools/worker/80-ignition.bu", "worker", "ignition.proxy.noProxy", ".example.com"},
	{"Ignition to wait longer for a server", specification, "pools/worker/80-ignition.bu", "worker", "ignition.timeouts.httpTotal", "600"},
	{"somebody else's Ignition config inside mine", ofButane + "Merging Ignition Configs", "pools/worker/81-included.bu", "worker", "ignition.config.merge", "/etc/vendor.conf"},
}}
