package up

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
)

var times = regexp.MustCompile(` +\d+\.\d s`)

func show(live bool, do func(p *progress)) string {
	var out bytes.Buffer
	do(newProgress(&out, live))
	return times.ReplaceAllString(out.String(), " T s")
}

func story(p *progress) {
	_ = p.Step("making keys", func() (string, error) { return "", nil })
	_ = p.Step("starting etcd", func() (string, error) {
		p.Line("etcd ended, it is started again")
		return "on port 12379", nil
	})
	_ = p.Step("asking for more", func() (string, error) { return "not shown", errors.New("no") })
	p.Line("the end")
}

func TestWithoutATerminalEachFinishedStepIsALine(t *testing.T) {
	want := `✓ making keys T s
etcd ended, it is started again
✓ starting etcd: on port 12379 T s
✗ asking for more T s
the end
`
	if got := show(false, story); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOnATerminalTheRunningStepIsTheLastLine(t *testing.T) {
	got := show(true, story)
	for _, want := range []string{
		"… starting etcd T s\r\x1b[Ketcd ended, it is started again\n… starting etcd T s",
		"\r\x1b[K✓ starting etcd: on port 12379 T s\n",
		"\r\x1b[K✗ asking for more T s\nthe end\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%q", want, got)
		}
	}
}

func TestAStepsErrorIsTheCallersToShow(t *testing.T) {
	cause := errors.New("the disk is full")
	out := show(false, func(p *progress) {
		if err := p.Step("x", func() (string, error) { return "", cause }); !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
	})
	if strings.Contains(out, "disk") {
		t.Errorf("it was shown: %s", out)
	}
}
