package vm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// source is the object by which the controller follows the repository.
const source = `{"apiVersion":"bunsen.dev/v1alpha1","kind":"GitSource","metadata":{"name":"config"},"spec":{"url":%q,"interval":"5s","ref":{"branch":"main"}}}`

// refused switches the machine on with a token that is not good yet.
func (l *life) refused(t *testing.T) {
	l.render(t, func() (string, string, error) {
		hash, diff, err := l.repo.commit("Machines that follow git")
		if err != nil {
			return "", "", err
		}
		_, err = l.plane.kubectl(t.Context(), fmt.Appendf(nil, source, l.repo.bare), "apply", "--server-side", "-f",
			"-")
		if err == nil {
			_, err = l.plane.kubectl(t.Context(), nil, "wait", "mcp/worker", "--for=create", "--timeout=60s")
		}
		return hash, diff, err
	})
	go l.machine.live()
	l.say("The machine is switched on. It knows whom to ask, whom to believe and a token to ask with, and nothing " +
		"else. The token was made without the cluster, which does not know it yet.")
	l.must(t, poll(t.Context(), aBoot, func() error {
		if strings.Contains(l.lastLine("server", "answered GET"), "status=401") {
			return nil
		}
		return fmt.Errorf("the server was not asked: %s", l.plane.tail("server"))
	}))
	l.check(true, "our server refuses it", l.lastLine("server", "answered GET"))
	l.must(t, poll(t.Context(), aBoot, func() error {
		if l.boots() > 1 {
			return nil
		}
		return errors.New("the machine still runs")
	}))
	l.check(true, "Ignition gave up, the initramfs switched the machine off, and it boots again", l.boots())
}

func (l *life) firstBoot(t *testing.T) {
	begin, on := time.Now(), time.Now()
	refused := l.boots()
	_, err := l.plane.kubectl(t.Context(), nil, "apply", "--server-side", "-f", l.keep)
	l.must(t, err)
	l.show("$", "kubectl apply -f token.yaml; bunsen token list", l.list(t))
	l.becomes(t, begin, twoOf, "the Node is there, Ready and Done", l.done())
	l.must(t, l.shell.await(t.Context()))
	l.check(true, "SSH lets core in by the key from git, after", time.Since(on).Round(time.Second))
	boots, _ := l.machine.booted()
	// It may have come a moment too early once more.
	born := len(boots) - 2
	l.check(born >= refused-1 && born <= refused && boots[born].firstBoot && !boots[born+1].firstBoot, "two boots "+
		"more: one with Ignition in the initramfs, and one into the kernel argument, before the kubelet joins",
		len(boots))
	l.check(!strings.Contains(boots[born].options, "lab.born=1") && strings.Contains(boots[born+1].options,
		"lab.born=1"), "the boot entry has the argument since the last", boots[born+1].title)
	served := l.lastLine("server", "status=200")
	l.check(strings.Contains(served, "version=3.5.0") && strings.Contains(served, "config="+l.config),
		"our server served it", served)
	l.closed(t)
	l.look(t.Context(), "sudo journalctl -b -1 -o cat -t ignition | grep -E 'GET |finished.*(writing "+
		"file|unit|user|ssh)'")
	out := l.look(t.Context(), "cat /etc/motd /usr/lib/bunsen-release; systemctl is-enabled beat; systemctl "+
		"is-active beat; stat -c '%a %U %n' /home/core/.ssh/authorized_keys.d/ignition")
	l.check(strings.Contains(out, "follows git") && strings.Contains(out, "enabled\nactive"),
		"files and units are as in git", "motd, beat.service")
	out = l.look(t.Context(), "readlink -f /dev/disk/by-id/virtio-"+dataSerial+"-part1; findmnt -no SOURCE,FSTYPE "+
		"/var/lib/data; sudo grep address1 /etc/NetworkManager/system-connections/static.nmconnection")
	disk, mount, _ := strings.Cut(out, "\n")
	l.check(strings.HasPrefix(disk, "/dev/vd") && strings.HasPrefix(mount, disk+" ext4") &&
		strings.Contains(out, "10.0.2.31/24"), "the disk with the serial number of its row has the data, and the "+
		"address is that of its row", mount)
	l.show(nodeName+"$", "journalctl -u machine-config-daemon-firstboot", l.daemonSaid(0))
	l.look(t.Context(), "cat /proc/cmdline; sudo ostree admin status; cat "+
		"/etc/machine-config-daemon/node-annotations.json")
	current := l.plane.must(t, "get", "node", nodeName, "-o",
		`jsonpath={.metadata.annotations.machineconfiguration\.openshift\.io/currentConfig}`)
	l.check(current == l.config, "the annotations were seeded from what the server appended", current)
}

// closed looks at what the machine was let in by.
func (l *life) closed(t *testing.T) {
	l.check(strings.Contains(l.lastLine("audit", `"action":"serve"`), `"node":"`+nodeName+`"`), "the audit log has it",
		l.lastLine("audit", `"action":"serve"`))
	list := l.list(t)
	l.check(strings.Contains(list, "used up"), "the token was good for one machine", list)
	ask := fmt.Sprintf(`curl -sk -o /dev/null -w '%%{http_code}' https://%s:%d/config/worker`, seenAddress, seenServer)
	l.check(l.look(t.Context(), ask) == "401", "nobody else reads it", "401")
	_, secret, _ := strings.Cut(strings.TrimPrefix(l.token, "bunsen."), ".")
	found := l.ask(t.Context(), "sudo journalctl --no-pager | grep -c "+secret+" || true")
	l.check(found == "0", "the token is not in the machine's journal", found)
	out := l.look(t.Context(), "sudo stat -c '%a %U %n' /etc/kubernetes/kubeconfig; sudo grep -vE "+
		"'certificate-authority-data|\"token\"' /etc/kubernetes/kubeconfig")
	l.check(strings.Contains(out, "600 root"), "it joined by a bootstrap token that was minted for it",
		"/etc/kubernetes/kubeconfig")
}

// list is what people see of the tokens.
func (l *life) list(t *testing.T) string {
	out, err := l.plane.bunsen(t.Context(), "token", "list")
	if err != nil {
		return err.Error()
	}
	return out
}

// lastLine is the last line of a process's log that has a word.
func (l *life) lastLine(name, word string) string {
	last := "nothing"
	for line := range strings.Lines(l.plane.log(name)) {
		if strings.Contains(line, word) {
			last = strings.TrimSpace(line)
		}
	}
	return last
}

func (l *life) rebootless(t *testing.T) {
	boot, beat := l.bootID(t.Context()), l.ask(t.Context(), "systemctl show -P InvocationID beat")
	begin := l.render(t, l.change("Beat faster, and say so",
		l.repo.edit("pools/worker/20-motd.bu", "This machine follows git.", "This machine follows git, and beats "+
			"faster."),
		l.repo.edit("pools/worker/30-beat.bu", "every=3600", "every=600")))
	l.becomes(t, begin, soon, "Done", l.done())
	out := l.look(t.Context(), "cat /etc/motd /etc/beat.conf; sudo journalctl -u beat -o cat | tail -2")
	l.check(strings.Contains(out, "beats faster") && strings.Contains(out, "every=600"), "the files are the new ones",
		"motd, beat.conf")
	l.check(l.ask(t.Context(), "systemctl show -P InvocationID beat") != beat, "beat.service was restarted",
		"another invocation")
	l.check(l.bootID(t.Context()) == boot, "the machine was not rebooted", boot)
}

func (l *life) reboots(t *testing.T) {
	boot, boots, from := l.bootID(t.Context()), l.boots(), l.machine.said()
	begin := l.render(t, l.change("Let more files be watched", l.repo.write("pools/worker/40-sysctl.bu", `variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/sysctl.d/40-watches.conf
      mode: 0644
      contents:
        inline: |
          fs.inotify.max_user_watches = 123456
`)))
	l.becomes(t, begin, aBoot, "Done", l.done())
	l.must(t, l.shell.await(t.Context()))
	now := l.bootID(t.Context())
	l.check(now != boot && l.boots() == boots+1, "the machine was rebooted once", boot+" → "+now)
	out := l.look(t.Context(), "sysctl fs.inotify.max_user_watches 2>/dev/null || cat "+
		"/proc/sys/fs/inotify/max_user_watches")
	l.check(strings.HasSuffix(out, "123456"), "the setting is in force", out)
	l.look(t.Context(), "sudo journalctl -b -1 -o cat -t systemd-logind | grep -i reboot")
	l.show("$", "kubectl get events  # about the Node", l.events(t.Context(), "Reboot", "Drain", "OSUpdateStarted",
		"PendingConfig", "NodeDone"))
	l.show(nodeName+"$", "journalctl -u machine-config-daemon", l.daemonSaid(from))
}

func (l *life) badUnit(t *testing.T) {
	old, boots, from := l.config, l.boots(), l.machine.said()
	begin := l.render(t, l.change("A service that does not start", l.repo.write("pools/worker/50-broken.bu",
		`variant: fcos
version: 1.6.0
storage:
  files:
    - path: /etc/sysctl.d/50-broken.conf
      mode: 0644
      contents:
        inline: |
          fs.inotify.max_user_instances = 4321
systemd:
  units:
    - name: broken.service
      enabled: true
      contents: |
        [Service]
        ExecStart=/bin/false
        [Install]
        WantedBy=multi-user.target
`)))
	bad := l.config
	l.becomes(t, begin, twoOf, "back by itself, and Degraded", func(n *corev1.Node) error {
		a := n.Annotations
		if a[v1alpha1.StateAnnotation] != v1alpha1.StateDegraded || a[v1alpha1.CurrentConfigAnnotation] != old ||
			a[v1alpha1.DesiredConfigAnnotation] != bad ||
			a[v1alpha1.ReasonAnnotation] == "" || ready(n) != "True" || l.boots() < boots+2 {
			return fmt.Errorf("wanted Degraded in %s with a reason after two boots, after %d the Node says %s", old,
				l.boots()-boots, said(n))
		}
		return nil
	})
	l.must(t, l.shell.await(t.Context()))
	l.check(l.boots() == boots+2, "it was booted twice: into the new config and back", l.boots()-boots)
	out := l.look(t.Context(), "ls /etc/sysctl.d/50-broken.conf /etc/systemd/system/broken.service "+
		"/etc/systemd/system/multi-user.target.wants/ 2>&1; cat /proc/sys/fs/inotify/max_user_instances")
	l.check(!strings.Contains(out, "4321") && strings.Count(out, "No such file") == 2,
		"nothing of the bad config is left", "no file, no unit")
	l.look(t.Context(), "sudo cat /var/lib/machine-config-daemon/rejected.json")
	l.show(nodeName+"$", "journalctl -u machine-config-daemon", l.daemonSaid(from))
	l.show("$", "kubectl get mcp worker", l.ofPool(t.Context()))
	count := l.boots()
	timer := time.NewTimer(asGone)
	defer timer.Stop()
	select {
	case <-t.Context().Done():
	case <-timer.C:
	}
	l.check(l.boots() == count, "it is not tried again", fmt.Sprintf("no boot in %s", asGone))
}

func (l *life) ofPool(ctx context.Context) string {
	out, err := l.plane.kubectl(ctx, nil, "get", "mcp", "worker")
	if err != nil {
		return err.Error()
	}
	return out
}

func (l *life) revertBadUnit(t *testing.T) {
	boots := l.boots()
	begin := l.render(t, l.repo.revert)
	l.becomes(t, begin, aBoot, "Done", l.done())
	l.check(l.boots() == boots, "no reboot was needed: the machine had that config already", l.boots()-boots)
}

// many is a document of n files.
func many(n int, word string) string {
	var b strings.Builder
	b.WriteString("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n")
	for i := range n {
		fmt.Fprintf(&b, "    - path: /etc/many/%03d\n      mode: 0644\n      contents:\n        inline: |\n"+
			"          %s\n", i, strings.Repeat(fmt.Sprintf("%s %d ", word, i), 100))
	}
	return b.String()
}

// manyFiles is how many, and cutAt the one after which the power goes.
const (
	manyFiles = 120
	cutAt     = 60
)

func (l *life) powerCut(t *testing.T) {
	begin := l.render(t, l.change("Many files", l.repo.write("pools/worker/70-many.bu", many(manyFiles, "old"))))
	l.becomes(t, begin, aBoot, "Done with many files", l.done())
	l.ask(t.Context(), "sync")
	boots := l.boots()
	begin = l.render(t, l.change("Other contents for all of them", l.repo.write("pools/worker/70-many.bu",
		many(manyFiles, "new"))))
	ctx, cancel := context.WithTimeout(t.Context(), aBoot)
	defer cancel()
	l.ask(ctx, fmt.Sprintf("until grep -qs '^new' /etc/many/%03d; do :; done", cutAt))
	l.must(t, l.machine.cut())
	cutAtByte := l.machine.said()
	l.say("QEMU is killed (SIGKILL) when the daemon has written file %d of %d: what the machine's kernel had not "+
		"written to its disk is lost.", cutAt, manyFiles)
	l.becomes(t, begin, aBoot, "Done", l.done())
	l.must(t, l.shell.await(t.Context()))
	all, _ := l.machine.booted()
	l.check(l.boots() == boots+1 && all[len(all)-1].afterCrash, "one boot, of a file system whose journal was replayed",
		l.boots()-boots)
	l.show(nodeName+"$", "journalctl -b -u machine-config-daemon", but("/etc/many/", l.daemonSaid(cutAtByte)))
	out := l.look(t.Context(), "cut -d' ' -f1 /etc/many/* | sort | uniq -c; ls /etc/many | wc -l; sudo ls "+
		"/var/lib/machine-config-daemon")
	l.check(strings.Contains(out, fmt.Sprintf("%d new", manyFiles)), "every file is whole, and the new one",
		strings.TrimSpace(strings.Split(out, "\n")[0]))
}

// but leaves out lines that have a word, and says how many.
func but(word, text string) string {
	var lines []string
	left := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			left++
			continue
		}
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	return strings.Join(append(lines, fmt.Sprintf("(and %d lines about %s)", left, word)), "\n")
}

func after(line, mark string) string {
	if _, rest, ok := strings.Cut(line, mark); ok {
		return rest
	}
	return line
}

// toV2 is the commit that brings another OS.
func (l *life) toV2(subject string) func() (string, string, error) {
	return func() (string, string, error) {
		return l.change(subject, l.repo.edit("pools/worker/60-os.yaml", l.image.v1, l.image.v2),
			l.repo.edit("pools/worker/60-os.yaml", "- lab.born=1", "- lab.born=1\n    - lab.argument=1"))()
	}
}

func (l *life) newOS(t *testing.T) {
	boots := l.boots()
	begin := l.render(t, l.toV2("OS v2, with a kernel argument"))
	l.becomes(t, begin, twoOf, "Done", l.done())
	l.must(t, l.shell.await(t.Context()))
	l.check(l.boots() == boots+1, "one reboot", l.boots()-boots)
	out := l.look(t.Context(), "cat /usr/lib/bunsen-release /etc/new-in-v2.conf /proc/cmdline; sudo ostree admin "+
		"status; rpm-ostree status --json | head -40")
	l.check(strings.Contains(out, "bunsen lab v2") && strings.Contains(out, "new in v2"), "it runs v2",
		"/usr and /etc of v2")
	l.check(strings.Contains(out, "lab.argument=1"), "with the kernel argument", "lab.argument=1")
	l.check(strings.Contains(l.ask(t.Context(), "cat /etc/motd"), "beats faster"), "the config's files came along",
		"/etc/motd")
}

func (l *life) oldOS(t *testing.T) {
	boots := l.boots()
	begin := l.render(t, l.repo.revert)
	l.becomes(t, begin, twoOf, "Done", l.done())
	l.must(t, l.shell.await(t.Context()))
	l.check(l.boots() == boots+1, "one reboot", l.boots()-boots)
	out := l.look(t.Context(), "cat /usr/lib/bunsen-release /proc/cmdline; ls /etc/new-in-v2.conf 2>&1; sudo ostree "+
		"admin status")
	l.check(strings.Contains(out, "bunsen lab v1") && !strings.Contains(out, "lab.argument"),
		"it runs v1 again, without the argument", "/usr of v1")
	l.show("$", "bunsen trace node/"+nodeName, but("/etc/many/", l.trace(t.Context())))
}

// cutGoingDown takes the power away when the reboot has been asked for: what OSTree has staged is written to the boot
// entries only while the machine goes down.
func (l *life) cutGoingDown(t *testing.T) {
	old, boots, from := l.config, l.boots(), l.machine.said()
	begin := l.render(t, l.toV2("OS v2 after all"))
	ctx, cancel := context.WithTimeout(t.Context(), twoOf)
	defer cancel()
	line, err := l.machine.awaitLine(ctx, from, "msg=rebooting")
	l.must(t, err)
	l.must(t, l.machine.cut())
	l.say("QEMU is killed when the daemon says that it reboots.")
	l.check(true, "the last that the machine said", after(line, "]: "))
	cutAtByte := l.machine.said()
	node := l.becomes(t, begin, twoOf, "either Done, or Degraded in the config of before", func(n *corev1.Node) error {
		reason := n.Annotations[v1alpha1.ReasonAnnotation]
		if l.boots() > boots+1 && (l.done()(n) == nil || is(v1alpha1.StateDegraded, "")(n) == nil && reason != "" &&
			n.Annotations[v1alpha1.CurrentConfigAnnotation] == old) {
			return nil
		}
		return fmt.Errorf("after %d boots the Node says %s", l.boots()-boots, said(n))
	})
	l.must(t, l.shell.await(t.Context()))
	l.show(nodeName+"$", "journalctl -u machine-config-daemon", l.daemonSaid(cutAtByte))
	out := l.look(t.Context(), "cat /usr/lib/bunsen-release /proc/cmdline; sudo ostree admin status; sudo ls "+
		"/var/lib/machine-config-daemon")
	v2, argument := strings.Contains(out, "bunsen lab v2"), strings.Contains(out, "lab.argument=1")
	done := node != nil && l.done()(node) == nil
	l.check(v2 == argument && v2 == done, "the OS is wholly of the one config or wholly of the other",
		fmt.Sprintf("v2 %v, its argument %v, Done in the new config %v", v2, argument, done))
}

func (l *life) trace(ctx context.Context) string {
	out, err := l.plane.bunsen(ctx, "trace", "node/"+nodeName)
	if err != nil {
		return err.Error()
	}
	return out
}
