package message

// leftOver maps keys of Ignition 2, of Container Linux Configs and of cloud-init to what to write instead.
var leftOver = map[string]string{
	"filesystem": "it belongs to Ignition 2 and Container Linux Configs: remove it, and write the whole path",
	"remote":     "it belongs to Container Linux Configs: write source",
	"networkd":   "it belongs to Ignition 2 and Container Linux Configs: write the units as files below /etc/systemd/network",
	"enable":     "it belongs to Ignition 2: write enabled",
	"create":     "it belongs to Ignition 2: write its keys beside the name",
	"etcd":       "it belongs to Container Linux Configs: write a unit of systemd",
	"flannel":    "it belongs to Container Linux Configs: write a unit of systemd",
	"docker":     "it belongs to Container Linux Configs: write a drop-in of docker.service",
	"locksmith":  "it belongs to Container Linux Configs: write /etc/flatcar/update.conf as a file",
	"update":     "it belongs to Container Linux Configs: write /etc/flatcar/update.conf as a file",

	"hostname":            "write the name into /etc/hostname, as a file of storage.files",
	"fqdn":                "it belongs to cloud-init: write the name into /etc/hostname, as a file of storage.files",
	"network":             "write files below /etc/NetworkManager/system-connections or /etc/systemd/network",
	"networks":            "write files below /etc/NetworkManager/system-connections or /etc/systemd/network",
	"sudo":                "write a file below /etc/sudoers.d, or add the user to a group such as sudo or wheel",
	"write_files":         "it belongs to cloud-init: write storage.files",
	"runcmd":              "it belongs to cloud-init: write a unit of systemd with Type=oneshot",
	"bootcmd":             "it belongs to cloud-init: write a unit of systemd with Type=oneshot",
	"packages":            "it belongs to cloud-init: put the packages into the image",
	"ssh-authorized-keys": "it belongs to cloud-init: write ssh_authorized_keys",
	"lock_passwd":         "it belongs to cloud-init: remove it, because a user without password_hash has no password",
	"timezone":            "write the link /etc/localtime to ../usr/share/zoneinfo/ZONE in storage.links",
	"ntp":                 "write the file of the time service, such as /etc/chrony.conf",
}

// LeftOver returns what to write instead of a key that other formats have, and "" for any other key.
func LeftOver(key string) string { return leftOver[key] }
