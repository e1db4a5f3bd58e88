package message

// dataForm explains how to write contents within a config.
const dataForm = "write it as data:,TEXT with every special character as %XX, or as data:;base64,… of the whole " +
	"contents; in Butane, write `inline:` or `local:`"

// dataURL is the message about a source that is not a valid data: URL.
const dataURL = "the source is not a valid data: URL: " + dataForm

// table maps messages of libraries to Bunsen's messages. In an entry, %[1]s is the value that the message is about, and
// %[2]s is what to write instead of it.
var table = map[string]string{
	// Messages of Ignition about paths and owners.
	"path not absolute":                "%[1]s is not an absolute path: write %[2]s",
	"path is not fully simplified":     "%[1]s has parts that a path does not need (.., //, a / at the end): write %[2]s",
	"path not specified":               "the item has no path: add `path: /etc/…`",
	"cannot set both id and name":      "the owner has an id and a name: keep one of them",
	"link target is required":          "the link has no target: add `target: /path`",
	"hard link target is a directory":  "the target of a hard link is a directory, and a hard link needs a file: set `hard: false`",
	"user/group ignored for hard link": "a hard link has the owner of its target: remove user and group",
	"file path includes link in config": "the config makes a link of a directory above this file, so Ignition fails: " +
		"write the path without the link, " +
		"or remove the link",
	"directory path includes link in config": "the config makes a link of a directory above this one, so Ignition " +
		"fails: write the path without the link, " +
		"or remove the link",
	"link path includes link in config":                             "the config makes a link of a directory above this link, so Ignition fails: write the path without the other link",
	"duplicate entry defined":                                       "this entry occurs twice: keep one",
	"path conflicts with systemd unit or dropin":                    "this file is also written by a unit or a drop-in of this config: write it below systemd.units alone",
	"overwrite must be false if source is unspecified":              "`overwrite: true` without contents would leave no file: add contents, or remove overwrite",
	"shouldExist specified false with other options also specified": "an item with `should_exist: false` has no other settings: remove them",
	// Messages of Ignition about contents.
	"source must be specified if verification is specified": "there is a verification without contents: add contents, or remove it",
	"source is required":                  "the contents are missing: add `inline:`, `local:` or `source:`",
	"invalid url scheme":                  "the source has an unknown scheme. Write an address that begins with https://, then run `bunsen hash`; only `contents` of a file can be in a registry (oci://). For contents themselves, " + dataForm,
	"unable to parse url":                 "the source is not a URL: " + dataForm,
	"malformed hash specifier":            "%[1]s is not a hash: write sha256- or sha512- and the digest in hexadecimal, as `sha256sum FILE` prints it",
	"incorrect size for hash sum":         "%[1]s has the wrong number of digits: sha256- has 64 and sha512- has 128 behind it, as `sha256sum FILE` prints them",
	"unrecognized hash function":          "%[1]s is of an unknown kind: write sha256- or sha512- and the digest in hexadecimal",
	"invalid compression method":          "%[1]s is an unknown compression: write gzip, or remove the key",
	"unable to parse HTTP header":         "the HTTP header is not valid: write a name and a value",
	"HTTP header name can't be empty":     "an HTTP header has no name: add it, or remove the item",
	"proxies must be http(s)":             "the proxy is not a URL that begins with http:// or https://",
	"invalid S3 ARN format":               "the S3 ARN is not valid: copy the contents into the repository, and name them with `local:`",
	"invalid S3 object VersionId":         "the S3 version is not valid: copy the contents into the repository, and name them with `local:`",
	"invalid data character":              dataURL,
	"invalid data character(s)":           dataURL,
	"missing data prefix":                 dataURL,
	"missing comma before data":           dataURL + "; it has no comma",
	"invalid character after data prefix": dataURL,
	// Messages of Ignition about units.
	"invalid systemd unit extension":    "%[1]s does not end in a type of unit: write %[2]s, or end it in .socket, .mount, .automount, .swap, .target, .path, .timer, .slice or .scope",
	"no systemd unit extension":         "%[1]s does not end in a type of unit: write %[2]s",
	"invalid systemd drop-in extension": "%[1]s is not a name of a drop-in: write %[2]s",
	"invalid systemd instantiated unit": "%[1]s is not an instance of a template: write NAME@INSTANCE.service",
	// Messages of Ignition about disks and file systems.
	"disk device is required":   "the disk has no device: add `device: /dev/disk/by-id/…`",
	"device not specified":      "the item has no device: add `device: /dev/disk/by-…/…`",
	"partition numbers collide": "two partitions have the same number: number them differently, or use 0 for the next that is free",
	"partitions overlap":        "two partitions overlap: change start_mib or size_mib",
	"partitions misaligned":     "a partition does not begin at a multiple of 2048 sectors: change start_mib",
	"doesn't match the form \"01234567-89AB-CDEF-EDCB-A98765432101\"":                                      "%[1]s is not a GUID: write it like 01234567-89AB-CDEF-EDCB-A98765432101",
	"invalid filesystem format":                                                                            "%[1]s is an unknown format: write ext4, xfs, btrfs, vfat, swap or none",
	"filesystem must specify format if label is specified":                                                 "the file system has a label and no format: add `format:`",
	"format cannot be empty when path, label, uuid, wipeFilesystem, options, or mountOptions is specified": "the file system has no format: add `format: xfs` or another",
	"unrecognized raid level":                                                                              "%[1]s is an unknown RAID level: write linear, raid0, raid1, raid4, raid5, raid6 or raid10",
	"raid level is required":                                                                               "the RAID has no level: add `level: raid1` or another",
	"raid devices required":                                                                                "the RAID has no devices: add `devices: […]`",
	"invalid key-file source":                                                                              "the key file is not valid: " + dataForm,
	"missing required custom clevis pin":                                                                   "the custom clevis has no pin: add `pin:`",
	"missing required custom clevis config":                                                                "the custom clevis has no config: add `config:`",
	"cannot use custom clevis config with tpm2, tang, or threshold":                                        "clevis has `custom` together with tpm2, tang or threshold: keep custom alone, or remove it",
	"unsupported clevis pin":                                                                               "%[1]s is an unknown clevis pin: write tpm2, tang or sss",
	"thumbprint is required":                                                                               "the tang server has no thumbprint: add `thumbprint:`, as `tang-show-keys` prints it",
	"advertisement is not valid JSON":                                                                      "the tang server's advertisement is not JSON: write what http://SERVER/adv returns",
	"cannot use cex with clevis":                                                                           "there are cex and clevis for one device: keep one of them",
	"cannot use key file with cex":                                                                         "there are cex and a key file for one device: keep one of them",
	"a partition number >= 1 or a label must be specified":                                                 "the partition has neither a number nor a label: add one of them",
	"cannot use the same partition label twice":                                                            "two partitions have the same label: change one of them",
	// Messages of Ignition about versions.
	"invalid config version (couldn't parse)": "ignition.version is not a version: write 3.5.0",
	"unsupported config version":              "this version of Ignition is not supported: write 3.5.0",
	"not a config (empty)":                    "the config is empty: write it, or remove the file",
	"config is not valid":                     "the config is not valid Ignition: it is JSON that begins with {\"ignition\": {\"version\": \"3.5.0\"}}",
	"config format deprecated":                "this version of Ignition is old: write 3.5.0",
	// Messages of the library go-systemd.
	"invalid unit content: unable to find end of section":                            "the section's name has no ] at its end: write it as [Service]",
	"invalid unit content: unit file misparse: option before section":                "a setting stands before the first section: write [Unit], [Service] or another section above it",
	"invalid unit content: unexpected newline encountered while parsing option name": "the line is no setting: write NAME=VALUE, or # in front of a comment",
	// Messages of Butane.
	"only one of the following can be set: inline, local, source":    "contents have one of inline, local and source: keep one",
	"only one of the following can be set: contents, contents_local": "a unit has one of contents and contents_local: keep one",
	"local file path traverses outside the files directory":          "the path leaves the repository: copy the file into it",
	"local is required":                                                                                             "the tree has no `local:`: name a directory of this repository",
	"root of tree must be a directory":                                                                              "%[1]s is a file, and storage.trees takes directories: name it under storage.files with `contents: {local: …}`",
	"trees may only contain files, directories, and symlinks":                                                       "the tree holds something that is no file, directory or link: remove it",
	"matching filesystem node has existing contents or different type":                                              "a file of the tree is also an item of the document with its own contents: keep one of the two",
	"unreasonable mode would be reasonable if specified in octal; remember to add a leading zero":                   "the mode is read as a decimal number: write it with a zero in front, such as 0644",
	"template instances cannot have contents or contents_local":                                                     "an instance of a template has no contents of its own: write them in the template NAME@.service",
	"path is required if with_mount_unit is true and format is not swap":                                            "`with_mount_unit` needs a path: add `path: /var/…`",
	"format is required if with_mount_unit is true":                                                                 "`with_mount_unit` needs a format: add `format: xfs` or another",
	"field \"name\" is required":                                                                                    "the user of GRUB has no name: add `name:`",
	"field \"password_hash\" is required":                                                                           "the user of GRUB has no password: add `password_hash:`, as `grub2-mkpasswd-pbkdf2` prints it",
	"must be empty, \"default\", or \"realtime\"":                                                                   "%[1]s is an unknown type of kernel: write default or realtime, or remove the key",
	"metadata.name is required":                                                                                     "the document has no name: add `metadata: {name: 10-NAME, labels: {machineconfiguration.openshift.io/role: POOL}}`",
	"machineconfiguration.openshift.io/role label is required":                                                      "the document has no role: add `labels: {machineconfiguration.openshift.io/role: POOL}` below metadata",
	"no method specified for luks":                                                                                  "luks has no method: add tpm2, tang or cex",
	"file contents source must be data URL in this spec version":                                                    "the source is a URL, and this version takes contents only from the repository: name a file with `local:`",
	"appending to files is not supported in this spec version":                                                      "variant openshift cannot append to files: write the whole file, or a file in a directory such as NAME.d",
	"directories are not supported in this spec version":                                                            "variant openshift has no directories: write a file into it, which creates it, or use variant fcos",
	"links are not supported in this spec version":                                                                  "variant openshift has no links: use variant fcos",
	"groups are not supported in this spec version":                                                                 "variant openshift has no groups: use variant fcos",
	"users other than \"core\" are not supported in this spec version":                                              "variant openshift has no users but core: use variant fcos",
	"special mode bits are not supported in this spec version":                                                      "setuid, setgid and sticky are not supported: use 0000 to 0777",
	"error parsing variant; must be specified":                                                                      "the document has no variant: begin it with `variant: fcos` and `version: 1.6.0`",
	"error parsing version; must be a valid semver":                                                                 "the version is not valid: write it like 1.6.0",
	"this section cannot be used for kernel arguments in this spec version; use openshift.kernel_arguments instead": "variant openshift has its kernel arguments elsewhere: write them as openshift.kernel_arguments",
	"illegal file mode": "the mode is outside 0000 to 0777: write it like 0644",
	"setuid/setgid/sticky bits are not supported or functional in spec versions older than 3.6.0": "setuid, setgid and sticky are not supported: use 0000 to 0777",
	"field ignored in raw mode":                       "the key has no effect in an Ignition config: remove it",
	"cannot use HTTP headers with this source scheme": "contents within the config have no HTTP headers: remove them",
	"local file paths are relative to a files directory that must be specified with -d/--files-dir": "there are no local files here: write the contents as `inline:`",
	"engine incorrectly configured": "Ignition cannot judge the config: write ignition.version 3.5.0",
	// Messages of the decoders of gzip, base64 and data: URLs.
	"gzip: invalid header": "the contents are not compressed, though `compression` says gzip: remove compression, or compress them",
	"unexpected EOF":       "the contents are not compressed, or end too early: remove `compression`, or copy them as a whole",
}

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
