package beneath_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// owners of random things. Root is there twice, so that paths get somewhere.
var owners = []int{0, 0, 1500, 1600}

// grow makes a random machine of directories and links, and returns what it has, for a failure's message.
func grow(t testing.TB, root string, rnd *rand.Rand) (says string) {
	t.Helper()
	dirs := []string{"/"}
	for i := range 24 {
		in, name, uid := dirs[rnd.IntN(len(dirs))], string(rune('a'+rnd.IntN(6))), owners[rnd.IntN(len(owners))]
		at := path.Join(in, name)
		if _, err := os.Lstat(filepath.Join(root, at)); err == nil {
			continue
		}
		line := fmt.Sprintf("dir %s %d %o", at, uid, []uint32{0o755, 0o755, 0o755, 0o1777, 0o777}[rnd.IntN(5)])
		if i > 4 && rnd.IntN(2) == 0 {
			line = fmt.Sprintf("link %s %d %s", at, uid, randomTarget(rnd, dirs))
		} else {
			dirs = append(dirs, at)
		}
		layout(t, root, line)
		says += line + "\n"
	}
	return says
}

func randomTarget(rnd *rand.Rand, dirs []string) string {
	to := dirs[rnd.IntN(len(dirs))]
	var parts []string
	for range rnd.IntN(4) {
		parts = append(parts, []string{"..", "..", "a", "b", "c", "."}[rnd.IntN(6)])
	}
	tail := strings.Join(parts, "/")
	if rnd.IntN(2) == 0 && tail != "" {
		return tail
	}
	return to + "/" + tail
}

// touched is what a resolution without any rule meets: where it ends, and who could have led it elsewhere.
type touched struct {
	end string
	by  map[uint32]bool
}

// naive resolves a path as the kernel does in a root, and notes the owner of everything on the way, and of what it is
// in.
func naive(root, p string, links *int) (got touched, ok bool) {
	got = touched{end: "/", by: map[uint32]bool{}}
	todo := strings.Split(p, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			got.end = path.Dir(got.end)
			continue
		}
		at := path.Join(got.end, name)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			return got, false
		}
		got.by[info.Sys().(*syscall.Stat_t).Uid] = true
		if info.Mode()&os.ModeSymlink == 0 {
			got.end = at
			continue
		}
		if *links++; *links > 40 {
			return got, false
		}
		above, err := os.Lstat(filepath.Join(root, got.end))
		if err != nil {
			return got, false
		}
		if got.end != "/" && above.Mode()&0o002 != 0 && above.Mode()&os.ModeSticky == 0 {
			got.by[shared] = true
		}
		to, err := os.Readlink(filepath.Join(root, at))
		if err != nil {
			return got, false
		}
		if path.IsAbs(to) {
			got.end = "/"
		}
		todo = append(strings.Split(to, "/"), todo...)
	}
	return got, true
}

// shared stands for a link in a directory in which everybody can rename.
const shared = 1 << 30

// permitted tells whether a path may be opened that leads to a directory: each user on the way could lead it elsewhere,
// so that it has to be below a directory of that user, and what is between has to be that user's or root's.
func permitted(root string, got touched) bool {
	for uid := range got.by {
		if uid != 0 && uid != shared && !belongs(root, got.end, uid) {
			return false
		}
	}
	if !got.by[shared] {
		return true
	}
	return belongs(root, got.end, 1500) || belongs(root, got.end, 1600)
}

func belongs(root, dir string, uid uint32) bool {
	for ; dir != "/"; dir = path.Dir(dir) {
		info, err := os.Lstat(filepath.Join(root, dir))
		switch owner := info.Sys().(*syscall.Stat_t).Uid; {
		case err != nil, owner != 0 && owner != uid:
			return false
		case owner == uid:
			return true
		}
	}
	return false
}

// play opens every path of two names, of three through links, in a random machine, and holds it against the rule.
func play(t testing.TB, root string, seed uint64) (opened, refused int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	says := grow(t, root, rnd)
	for _, kernel := range []string{"openat2", "no openat2"} {
		tree := open(t, root, kernel)
		for range 40 {
			p := ""
			for range 1 + rnd.IntN(4) {
				p += "/" + string(rune('a'+rnd.IntN(6)))
			}
			got, there := naive(root, p, new(int))
			d, err := tree.Dir(p)
			if err != nil {
				if there {
					refused++
				}
				continue
			}
			opened++
			at := pathOf(t, root, d)
			d.Close()
			if !there || at != got.end {
				t.Fatalf("seed %d, %s: %s leads to %s, and to %s, %t by its links\n%s", seed, kernel, p, at, got.end,
					there, says)
			}
			if !permitted(root, got) {
				t.Fatalf("seed %d, %s: %s leads to %s, which those on the way could have chosen: %v\n%s", seed, kernel,
					p, at, got.by, says)
			}
		}
		tree.Close() //nolint:errcheck,gosec // only read
	}
	return opened, refused
}

// TestRandomLinksLeadNowhereElse holds random machines against the rule.
func TestRandomLinksLeadNowhereElse(t *testing.T) {
	asRoot(t)
	dir := t.TempDir()
	var opened, refused int
	for seed := range uint64(300) {
		root := filepath.Join(dir, fmt.Sprint(seed))
		if err := unix.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		o, r := play(t, root, seed)
		opened, refused = opened+o, refused+r
	}
	if opened < 3000 || refused < 300 {
		t.Errorf("only %d paths were opened and %d refused: the test tries too little", opened, refused)
	}
}

// FuzzLinks is TestRandomLinksLeadNowhereElse for seeds that the fuzzer finds.
func FuzzLinks(f *testing.F) {
	asRoot(f)
	f.Add(uint64(1))
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) { play(t, t.TempDir(), seed) })
}
