package ignition

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// image are the files of the machine that both judges begin with: a small one of an OS that keeps what the image has of
// /etc below /usr/etc, as those do that Ignition comes with.
var image = map[string]string{
	"etc/passwd":              "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000:CoreOS Admin:/home/core:/bin/bash\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
	"etc/group":               "root:x:0:\nadm:x:4:core\nwheel:x:10:core\nusers:x:100:\ncore:x:1000:\nnobody:x:65534:\n",
	"etc/shadow":              "root:*:18000:0:99999:7:::\ncore:*:18000:0:99999:7:::\nnobody:*:18000:0:99999:7:::\n",
	"etc/gshadow":             "root:::\nadm:::core\nwheel:::core\nusers:::\ncore:!::\nnobody:!::\n",
	"etc/login.defs":          "UID_MIN 1000\nUID_MAX 60000\nSYS_UID_MIN 201\nSYS_UID_MAX 999\nGID_MIN 1000\nGID_MAX 60000\nSYS_GID_MIN 201\nSYS_GID_MAX 999\nCREATE_HOME yes\nHOME_MODE 0700\nUMASK 022\nUSERGROUPS_ENAB yes\nENCRYPT_METHOD SHA512\nPASS_MAX_DAYS 99999\nPASS_MIN_DAYS 0\nPASS_WARN_AGE 7\n",
	"etc/default/useradd":     "GROUP=100\nHOME=/home\nINACTIVE=-1\nEXPIRE=\nSHELL=/bin/bash\nSKEL=/etc/skel\nCREATE_MAIL_SPOOL=no\n",
	"etc/skel/.bashrc":        "# what every user begins with\n",
	"etc/skel/.config/editor": "vi\n",
	"etc/motd":                "welcome\n",
	"etc/chrony.conf":         "pool example.org\n",
	"etc/app/app.conf":        "key=value\n",
	"etc/app/more.conf":       "more=value\n",
	"etc/systemd/system/own.service.d/10-own.conf":            "[Service]\nNice=1\n",
	"usr/lib/systemd/system/vendor.service":                   "[Service]\nExecStart=/usr/bin/vendor\n[Install]\nWantedBy=multi-user.target\n",
	"usr/lib/systemd/system/own.service":                      "[Service]\nExecStart=/usr/bin/own\n[Install]\nWantedBy=multi-user.target\nAlso=own.socket\n",
	"usr/lib/systemd/system/own.socket":                       "[Socket]\nListenStream=/run/own\n[Install]\nWantedBy=sockets.target\n",
	"usr/lib/systemd/system/static.service":                   "[Service]\nExecStart=/usr/bin/static\n",
	"usr/lib/systemd/system/many@.service":                    "[Service]\nExecStart=/usr/bin/many %i\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=first\n",
	"usr/lib/systemd/system/multi-user.target":                "[Unit]\n",
	"usr/lib/systemd/system-preset/90-vendor.preset":          "enable vendor.service\nenable brought.service\n",
	"usr/lib/systemd/system-preset/99-default-disable.preset": "disable *\n",
	"usr/lib/os-release":                                      "ID=fedora\nVARIANT_ID=coreos\n",
	"usr/libexec/ssh-key-dir":                                 "",
	"usr/bin/tool":                                            "a tool\n",
	"usr/share/zoneinfo/Etc/UTC":                              "UTC\n",
}

// install puts the image into a directory.
func install(root string) error {
	var bad []error
	for p, text := range image {
		bad = append(bad, put(filepath.Join(root, p), text))
		if p == "etc/shadow" || p == "etc/gshadow" {
			bad = append(bad, os.Chmod(filepath.Join(root, p), 0o600))
		}
	}
	for _, dir := range []string{
		"home", "opt", "ostree", "root", "run", "srv", "usr/local", "var/lib",
		"etc/systemd/system/multi-user.target.wants",
	} {
		bad = append(bad, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	bad = append(bad,
		os.Mkdir(filepath.Join(root, "home/core"), 0o700), os.Chown(filepath.Join(root, "home/core"), 1000, 1000),
		os.Symlink("../usr/share/zoneinfo/Etc/UTC", filepath.Join(root, "etc/localtime")),
		os.Symlink("/usr/lib/systemd/system/vendor.service",
			filepath.Join(root, "etc/systemd/system/multi-user.target.wants/vendor.service")),
		os.Chmod(filepath.Join(root, "etc/app"), 0o750), os.Chmod(filepath.Join(root, "etc/app/app.conf"), 0o640),
		os.Lchown(filepath.Join(root, "etc/app/app.conf"), 0, 10),
		copied(filepath.Join(root, "etc"), filepath.Join(root, "usr/etc")),
	)
	return errors.Join(bad...)
}

// copied copies a directory with modes, owners, links and hard links.
func copied(from, to string) error {
	out, err := exec.Command("cp", "--archive", from, to).CombinedOutput()
	if err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	return nil
}
