package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcs/files"
	"github.com/bunsen-os/bunsen/mcs/join"
)

// noon is the time of every test.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// The tokens of the tests: one of any number of uses, and one of three.
const (
	free    = "aaaaaaaaaa"
	limited = "bbbbbbbbbb"
)

// object is a token as YAML, good for an hour.
func object(id string, more ...string) string {
	return fmt.Sprintf("---\napiVersion: bunsen.dev/v1alpha1\nkind: ProvisioningToken\nmetadata:\n  name: %s\nspec:\n"+
		"  pool: worker\n  hash: %s\n  expires: %q\n%s",
		id, strings.Repeat(id[:1], 64), noon.Add(time.Hour).Format(time.RFC3339), strings.Join(more, ""))
}

var both = object(free) + object(limited, "  uses: 3\n")

// desk is a file of tokens, and where their uses are counted.
type desk struct {
	file, dir string
	log       bytes.Buffer
}

func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	dir := t.TempDir()
	d := &desk{file: filepath.Join(dir, "tokens.yaml"), dir: filepath.Join(dir, "counts")}
	write(t, d.file, text)
	return d
}

func (d *desk) open(t *testing.T) *files.Tokens {
	t.Helper()
	tokens, err := files.OpenTokens(d.file, d.dir, slog.New(slog.NewTextHandler(&d.log, nil)), func() time.Time {
		return noon
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tokens.Close() })
	return tokens
}

func from(address string) v1alpha1.TokenUse {
	return v1alpha1.TokenUse{Time: metav1.NewTime(noon), Address: address, Config: "rendered-worker-1"}
}

// onDisk is the count that a crash at this moment would leave.
func onDisk(t *testing.T, dir, id string) int32 {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, id+"-*.json"))
	if err != nil || len(pages) > 1 {
		t.Fatalf("%v, %v", pages, err)
	}
	if len(pages) == 0 {
		return 0
	}
	raw, err := os.ReadFile(pages[0])
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Status v1alpha1.ProvisioningTokenStatus
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		t.Fatal(err)
	}
	return page.Status.Used
}

func reason(err error) join.TokenReason {
	var r *join.InvalidError
	if errors.As(err, &r) {
		return r.Reason
	}
	return ""
}

// TestALimitedTokenIsNeverGivenOnceTooOften: many ask at once, the number of grants is exact, and each is on disk
// before it is told; another process goes on where this one stopped.
func TestALimitedTokenIsNeverGivenOnceTooOften(t *testing.T) {
	d := newDesk(t, object(limited, "  uses: 40\n"))
	tokens := d.open(t)
	var granted, refused atomic.Int32
	ask := func(tokens *files.Tokens, times int) {
		var all sync.WaitGroup
		for i := range times {
			all.Go(func() {
				switch err := tokens.Use(t.Context(), limited, from(fmt.Sprint("192.0.2.", i))); {
				case err == nil:
					told := granted.Add(1)
					if kept := onDisk(t, d.dir, limited); kept < told {
						t.Errorf("%d uses were granted, %d are on disk", told, kept)
					}
				case reason(err) == join.UsedUp:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	ask(tokens, 30)
	if granted.Load() != 30 || tokens.Token(limited).Status.Used != 30 ||
		len(tokens.Token(limited).Status.Recent) != 10 {
		t.Errorf("%d were granted, the status is %+v", granted.Load(), tokens.Token(limited).Status)
	}
	if err := tokens.Close(); err != nil {
		t.Fatal(err)
	}
	ask(d.open(t), 30)
	if granted.Load() != 40 || refused.Load() != 20 {
		t.Errorf("%d were granted and %d refused, want 40 and 20", granted.Load(), refused.Load())
	}
}

// TestAHistoryOfUsesCrashesAndReloads: whatever happens in whatever order, no more uses are granted than there are, and
// all that were granted are known afterwards.
func TestAHistoryOfUsesCrashesAndReloads(t *testing.T) {
	history := func(steps []uint8) bool {
		d := newDesk(t, both)
		tokens, granted := d.open(t), int32(0)
		for n, s := range steps {
			switch s % 6 {
			case 0, 1:
				if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); err == nil {
					granted++
				} else if reason(err) != join.UsedUp {
					t.Error(err)
				}
			case 2: // a crash, which leaves half a page
				write(t, filepath.Join(d.dir, limited+"-"+strings.Repeat("b", 16)+".json.new"), `{"token":"bb`)
				write(t, d.file, both)
				if err := tokens.Close(); err != nil {
					t.Error(err)
				}
				tokens = d.open(t)
			case 3: // taken away and put back
				write(t, d.file, object(free))
				_ = tokens.Reload()
				write(t, d.file, both)
				_ = tokens.Reload()
			case 4: // its number is not limited for a while
				write(t, d.file, object(free)+object(limited))
				_ = tokens.Reload()
				if err := tokens.Use(t.Context(), limited, from("192.0.2.2")); err != nil {
					t.Error(err)
				}
				granted++
				tokens.Write()
				write(t, d.file, both)
				_ = tokens.Reload()
			case 5:
				write(t, d.file, both+fmt.Sprintf("{ # %d", n))
				if tokens.Reload() == nil {
					t.Error("a bad file is taken")
				}
			}
		}
		left := granted < 3
		err := tokens.Use(t.Context(), limited, from("192.0.2.1"))
		if err == nil {
			granted++
		}
		used := tokens.Token(limited).Status.Used
		return tokens.Close() == nil && used == granted && (err == nil) == left
	}
	if err := quick.Check(history, &quick.Config{MaxCount: 50}); err != nil {
		t.Error(err)
	}
}

// TestAUseThatCannotBeWrittenIsNotGranted: the disk fails, and afterwards all uses are still there.
func TestAUseThatCannotBeWrittenIsNotGranted(t *testing.T) {
	d := newDesk(t, both)
	tokens := d.open(t)
	away := d.dir + "-away"
	if err := os.Rename(d.dir, away); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); !errors.Is(err, fs.ErrNotExist) ||
			reason(err) != "" {
			t.Errorf("got %v", err)
		}
	}
	if err := os.Rename(away, d.dir); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); (err == nil) != (n < 3) {
			t.Errorf("use %d: %v", n+1, err)
		}
	}
}

// TestWhoDoesNotWaitIsNotAnswered: a machine that hangs up gets nothing; whether its use is counted is left open.
func TestWhoDoesNotWaitIsNotAnswered(t *testing.T) {
	d := newDesk(t, both)
	tokens := d.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	granted := 0
	for range 10 {
		if err := tokens.Use(ctx, limited, from("192.0.2.1")); err == nil {
			granted++
		} else if !errors.Is(err, context.Canceled) && reason(err) != join.UsedUp {
			t.Error(err)
		}
	}
	if used := tokens.Token(limited).Status.Used; granted > int(used) || used > 3 {
		t.Errorf("%d were granted, %d counted", granted, used)
	}
	if err := tokens.Close(); err != nil {
		t.Fatal(err)
	}
	if kept, next := tokens.Token(limited).Status.Used, onDisk(t, d.dir, limited); next != kept {
		t.Errorf("the next process reads %d uses, this one counted %d", next, kept)
	}
	if half, err := filepath.Glob(filepath.Join(d.dir, "*.new")); err != nil || len(half) > 0 {
		t.Errorf("a write is still under way after the end: %v, %v", half, err)
	}
}

// TestUnlimitedUsesAreWrittenLater: nobody waits for the disk, and a stop that was asked for loses nothing.
func TestUnlimitedUsesAreWrittenLater(t *testing.T) {
	d := newDesk(t, both)
	tokens := d.open(t)
	for range 5 {
		if err := tokens.Use(t.Context(), free, from("192.0.2.1")); err != nil {
			t.Fatal(err)
		}
	}
	if n := onDisk(t, d.dir, free); n != 0 {
		t.Errorf("%d are on disk already", n)
	}
	tokens.Write()
	if n := onDisk(t, d.dir, free); n != 5 {
		t.Errorf("%d are on disk", n)
	}
	if err := tokens.Use(t.Context(), free, from("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	write(t, d.file, both+object("cccccccccc"))
	if err := tokens.Reload(); err != nil || tokens.Token(free).Status.Used != 6 {
		t.Errorf("%v; after a look at the file %d are known", err, tokens.Token(free).Status.Used)
	}
	if err := tokens.Close(); err != nil {
		t.Fatal(err)
	}
	if s := d.open(t).Token(free).Status; s.Used != 6 || !s.LastUsed.Time.Equal(noon) {
		t.Errorf("another process reads %+v", s)
	}
}

// TestWhatWasNotedIsWrittenThoughNothingIsGranted: a token that got a limit later, at what it was used up to then.
func TestWhatWasNotedIsWrittenThoughNothingIsGranted(t *testing.T) {
	d := newDesk(t, object(limited))
	tokens := d.open(t)
	for range 3 {
		if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); err != nil {
			t.Fatal(err)
		}
	}
	write(t, d.file, object(limited, "  uses: 4\n"))
	if err := tokens.Reload(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { _ = tokens.Use(t.Context(), limited, from("192.0.2.1")) })
	}
	all.Wait()
	tokens.Write()
	if n := onDisk(t, d.dir, limited); n != 4 {
		t.Errorf("%d are on disk", n)
	}
	write(t, d.file, object(limited))
	_ = tokens.Reload()
	_ = tokens.Use(t.Context(), limited, from("192.0.2.1"))
	write(t, d.file, object(limited, "  uses: 5\n"))
	_ = tokens.Reload()
	if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); reason(err) != join.UsedUp {
		t.Errorf("got %v", err)
	}
	tokens.Write()
	if n := onDisk(t, d.dir, limited); n != 5 {
		t.Errorf("%d are on disk", n)
	}
}

// TestTheFileIsFollowed: what changes in it counts with the next look; a bad one changes nothing and is told once.
func TestTheFileIsFollowed(t *testing.T) {
	d := newDesk(t, both)
	tokens := d.open(t)
	use := func(id string) join.TokenReason { return reason(tokens.Use(t.Context(), id, from("192.0.2.1"))) }
	if tokens.Token("cccccccccc") != nil || use("cccccccccc") != join.Unknown || use(limited) != "" {
		t.Error("an unknown token, or a good one, is not what it is")
	}
	write(t, d.file, object(free, "  revoked: true\n")+object(limited, "  uses: 3\n"))
	if err := tokens.Reload(); err != nil || use(free) != join.Revoked || !tokens.Token(free).Spec.Revoked ||
		tokens.Token(limited).Status.Used != 1 {
		t.Errorf("a revoked token: %v", err)
	}
	write(t, d.file, "kind: ProvisioningToken")
	if err := tokens.Reload(); err == nil || use(limited) != "" {
		t.Errorf("a bad file: %v", err)
	}
	if err := tokens.Reload(); err != nil {
		t.Errorf("it is told again: %v", err)
	}
	if err := os.Remove(d.file); err != nil {
		t.Fatal(err)
	}
	if err := tokens.Reload(); err == nil || use(limited) != "" {
		t.Errorf("no file: %v", err)
	}
	write(t, d.file, "# none any more\n")
	if err := tokens.Reload(); err != nil || tokens.Token(limited) != nil {
		t.Errorf("an empty file: %v", err)
	}
	write(t, d.file, strings.ReplaceAll(both, strings.Repeat("b", 64), strings.Repeat("c", 64)))
	if err := tokens.Reload(); err != nil || tokens.Token(limited).Status.Used != 0 {
		t.Errorf("another token of the same id begins with the other's uses: %v", err)
	}
	write(t, d.file, strings.ReplaceAll(both, "2026-01-02T13", "2026-01-02T11"))
	if err := tokens.Reload(); err != nil || use(free) != join.Expired {
		t.Errorf("a token whose time is over: %v", err)
	}
}

// TestACountOfElsewhereHolds: a token that was used in a cluster before is not as good as new.
func TestACountOfElsewhereHolds(t *testing.T) {
	tokens := newDesk(t, object(limited, "  uses: 3\nstatus:\n  used: 2\n")).open(t)
	for n := range 2 {
		if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); (err == nil) != (n < 1) {
			t.Errorf("use %d: %v", n+1, err)
		}
	}
}

// TestADamagedCountGrantsNothing that is limited; the other tokens do not notice.
func TestADamagedCountGrantsNothing(t *testing.T) {
	for sentence, page := range map[string]string{
		"half a page":              `{"token":"bb`,
		"another token's page":     fmt.Sprintf(`{"token":%q,"hash":%q,"status":{}}`, free, strings.Repeat("b", 64)),
		"a page of a later format": fmt.Sprintf(`{"token":%q,"hash":%q,"uses":1}`, limited, strings.Repeat("b", 64)),
		"uses below zero":          fmt.Sprintf(`{"token":%q,"hash":%q,"status":{"used":-5}}`, limited, strings.Repeat("b", 64)),
		"an empty page":            "",
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, both)
			if err := os.Mkdir(d.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(d.dir, limited+"-"+strings.Repeat("b", 16)+".json")
			write(t, file, page)
			tokens := d.open(t)
			if err := tokens.Use(t.Context(), limited, from("192.0.2.1")); err == nil || reason(err) != "" ||
				!strings.Contains(err.Error(), file) {
				t.Errorf("got %v", err)
			}
			if err := tokens.Use(t.Context(), free, from("192.0.2.1")); err != nil {
				t.Error(err)
			}
			write(t, d.file, object(free)+object(limited)) // without a limit it is good, and its uses are known nowhere
			if err := errors.Join(tokens.Reload(), tokens.Use(t.Context(), limited, from("192.0.2.1"))); err != nil {
				t.Error(err)
			}
			tokens.Write()
			if raw, err := os.ReadFile(file); err != nil || string(raw) != page || !strings.Contains(d.log.String(),
				file) {
				t.Errorf("the page is %q now, %v; the log says %s", raw, err, d.log.String())
			}
		})
	}
}

// TestOneProcessCounts: a second one would grant the same use once more.
func TestOneProcessCounts(t *testing.T) {
	d := newDesk(t, both)
	tokens := d.open(t)
	if _, err := files.OpenTokens(d.file, d.dir, quiet(), time.Now); err == nil ||
		!strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("got %v", err)
	}
	if err := tokens.Close(); err != nil {
		t.Fatal(err)
	}
	d.open(t)
}

// TestWhatIsWrongWithAFileOfTokens is told at the start, everything at once, with its place.
func TestWhatIsWrongWithAFileOfTokens(t *testing.T) {
	d := newDesk(t, both+object("Not-an-id!")+object(free)+
		"---\napiVersion: bunsen.dev/v1alpha1\nkind: ProvisioningToken\nmetadata: {name: cccccccccc}\n"+
		"spec: {hash: abc, uses: -1}\n"+
		"---\napiVersion: bunsen.dev/v1alpha1\nkind: ProvisioningToken\nmetadata: {name: dddddddddd}\n"+
		"spec: {pool: worker, token: secret}\n")
	_, err := files.OpenTokens(d.file, d.dir, quiet(), time.Now)
	if err == nil {
		t.Fatal("it is taken")
	}
	want := `reading provisioning tokens: tokens.yaml:21: the name "Not-an-id!" is not a token id of ten characters of a-z and 2-7: use the object that ` + "`bunsen token create --offline`" + ` prints
tokens.yaml:21: spec.hash of token Not-an-id! is not 64 hexadecimal digits in lower case: use the object that ` + "`bunsen token create --offline`" + ` prints
tokens.yaml:30: token aaaaaaaaaa is also in tokens.yaml:2: remove one
tokens.yaml:39: spec.hash of token cccccccccc is not 64 hexadecimal digits in lower case: use the object that ` + "`bunsen token create --offline`" + ` prints
tokens.yaml:39: token cccccccccc has no pool: set spec.pool
tokens.yaml:39: token cccccccccc does not expire: set spec.expires, such as 2026-01-31T12:00:00Z
tokens.yaml:39: token cccccccccc: spec.uses is -1: set 0 for any number, or 1 and more for a limit
tokens.yaml:44: reading the ProvisioningToken: json: unknown field "token"`
	if diff := cmp.Diff(want, strings.ReplaceAll(err.Error(), filepath.Dir(d.file)+"/", "")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// A start that failed leaves the folder to the next one.
	write(t, d.file, both)
	d.open(t)
}

// TestAFolderOfTokens: one file for each does as well.
func TestAFolderOfTokens(t *testing.T) {
	d := newDesk(t, "")
	if err := errors.Join(os.Remove(d.file), os.Mkdir(d.file, 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.file, "a.yaml"), object(free))
	write(t, filepath.Join(d.file, "b.yaml"), object(limited))
	tokens := d.open(t)
	if tokens.Token(free) == nil || tokens.Token(limited) == nil {
		t.Error("a token is missing")
	}
}
