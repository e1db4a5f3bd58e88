package image

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// TestTheFilesRoundTrip: the arguments come back, a second write changes nothing, and without arguments every byte of
// others is as before.
func TestTheFilesRoundTrip(t *testing.T) {
	for says, c := range map[string]struct {
		format format
		before string
		want   string
	}{
		"fragment, new":    {fragment{}, "", fragmentHead + "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT nosmt a=1,2\"\n"},
		"block, new":       {block{}, "", "# BEGIN Bunsen: the kernelArguments of the node's config, in a new file\nset linux_append=\"$linux_append nosmt a=1,2\"\n# END Bunsen\n"},
		"block, below":     {block{}, "set oem_id=x\n", "set oem_id=x\n# BEGIN Bunsen: the kernelArguments of the node's config\nset linux_append=\"$linux_append nosmt a=1,2\"\n# END Bunsen\n"},
		"block, unended":   {block{}, "set oem_id=x", "set oem_id=x\n# BEGIN Bunsen: the kernelArguments of the node's config, after a line without an end\nset linux_append=\"$linux_append nosmt a=1,2\"\n# END Bunsen\n"},
		"block, one blank": {block{}, "\n", "\n# BEGIN Bunsen: the kernelArguments of the node's config\nset linux_append=\"$linux_append nosmt a=1,2\"\n# END Bunsen\n"},
	} {
		t.Run(says, func(t *testing.T) {
			args := []string{"nosmt", "a=1,2"}
			text, err := c.format.with(c.before, args)
			if err != nil || text != c.want {
				t.Fatalf("%v, got\n%s\nwant\n%s", err, text, c.want)
			}
			if is, err := c.format.args(text); err != nil || !slices.Equal(is, args) {
				t.Errorf("it reads %q, %v", is, err)
			}
			if again, err := c.format.with(text, args); err != nil || again != text {
				t.Errorf("written twice: %q, %v", again, err)
			}
			other, err := c.format.with(text, []string{"b"})
			if is, _ := c.format.args(other); err != nil || !slices.Equal(is, []string{"b"}) {
				t.Errorf("others are %q, %v", is, err)
			}
			if back, err := c.format.with(other, nil); err != nil || back != c.before {
				t.Errorf("without arguments it is %q, %v; want %q", back, err, c.before)
			}
		})
	}
}

// TestLinesBelowTheBlockStay: users and tools append lines to the file of the OEM partition.
func TestLinesBelowTheBlockStay(t *testing.T) {
	for _, before := range []string{"", "set a=1\n", "set a=1"} {
		text, err := block{}.with(before, []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		text += "set b=2\n"
		next, err := block{}.with(text, []string{"y"})
		if want := strings.Replace(text, "$linux_append x", "$linux_append y", 1); err != nil || next != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, next, want)
		}
		want := "set b=2\n"
		if before != "" {
			want = "set a=1\nset b=2\n"
		}
		if back, err := (block{}).with(next, nil); err != nil || back != want {
			t.Errorf("%v, without arguments it is %q, want %q", err, back, want)
		}
	}
}

// TestWhatOthersWroteIsNotTakenForOurs: the daemon would otherwise lose a line of a user, or run one.
func TestWhatOthersWroteIsNotTakenForOurs(t *testing.T) {
	good, err := block{}.with("set a=1\n", []string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		format format
		text   string
	}{
		{fragment{}, "GRUB_TIMEOUT=0\n"},
		{fragment{}, fragmentHead},
		{fragment{}, fragmentHead + "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT $(reboot)\"\n"},
		{fragment{}, fragmentHead + "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT a\"\nreboot\n"},
		{fragment{}, fragmentHead + "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT a\"; \"\"\n"},
		{fragment{}, fragmentHead + "GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT \"\n"},
		{block{}, strings.TrimSuffix(good, blockEnd)},
		{block{}, strings.Replace(good, "x\"", "x\"; reboot", 1)},
		{block{}, strings.Replace(good, "$linux_append x", "$linux_append  x", 1)},
		{block{}, strings.Replace(good, "config\nset", "config\nset b=2\nset", 1)},
		{block{}, strings.Replace(good, "config\n", "config, otherwise\n", 1)},
		{block{}, "set a=1 " + blockBegin + "\nset linux_append=\"$linux_append x\"\n" + blockEnd},
		{block{}, blockBegin + blockUnended + "\nset linux_append=\"$linux_append x\"\n" + blockEnd},
	} {
		if args, err := c.format.args(c.text); err == nil {
			t.Errorf("it reads %q from\n%s", args, c.text)
		}
	}
}

// TestShellsReadPlainArgumentsAsThemselves sources the fragment with sh, as grub-mkconfig does.
func TestShellsReadPlainArgumentsAsThemselves(t *testing.T) {
	args := strings.Fields("nosmt _x=1 a-b_c.d=e,f:g/h@i%j+k~l!m=n memmap=4G!12G console=ttyS0,115200n8 " +
		"ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0:off 9p=-1 rd.luks.name=a=b")
	for _, a := range args {
		if !distribution.PlainArgument(a) {
			t.Errorf("%q is not plain", a)
		}
	}
	text, err := fragment{}.with("", args)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "cd /; GRUB_CMDLINE_LINUX_DEFAULT=quiet\n"+text+
		"printf %s \"$GRUB_CMDLINE_LINUX_DEFAULT\"").Output()
	if want := "quiet " + strings.Join(args, " "); err != nil || string(out) != want {
		t.Errorf("sh reads %q, %v; want %q", out, err, want)
	}
}

// TestHostileArgumentsAreNotPlain: each of them would leave the quotes of a file, be split, or be read as another text.
func TestHostileArgumentsAreNotPlain(t *testing.T) {
	for _, a := range []string{
		"", `a"; reboot; "`, "a'b", "$(reboot)", "$linux_append", "`reboot`", "a;reboot", "a\nreboot", "a\\", "a b",
		"a\tb", `dyndbg="file x +p"`, "a|b", "a&b",
		"a>b", "a<b", "{a}", "(a)", "#a", "a#b", "*", "a?", "[a]", "-a", "--update-kernel", "=a", "a\x00b", "ä",
		"a\u00a0b", "a\u200bb", "!a", "~a", "/a",
		"memmap=64K$0x1000", "a^b",
	} {
		if distribution.PlainArgument(a) {
			t.Errorf("%q is plain", a)
		}
	}
}

// TestTheFragmentComesLast: grub-mkconfig sources the files in the order of sh's glob, and the last one wins.
func TestTheFragmentComesLast(t *testing.T) {
	names := []string{
		"50-cloudimg-settings.cfg", "90-other.cfg", "init-select.cfg", "kdump-tools.cfg", "xen.cfg",
		filepath.Base(nodepath.GrubArguments),
	}
	if !slices.IsSorted(names) {
		t.Errorf("the order is %q", names)
	}
}
