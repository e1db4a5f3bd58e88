package fault_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
)

func TestAPanicIsAnErrorOfOneThing(t *testing.T) {
	for name, test := range map[string]struct {
		work  func()
		wants []string
	}{
		"an index beyond the end": {
			func() { var list []int; _ = list[len("one")] },
			[]string{"index out of range", "fault/panic_test.go:"},
		},
		"a nil pointer": {
			func() { var p *fault.PanicError; _ = p.What },
			[]string{"nil pointer dereference", "fault/panic_test.go:"},
		},
		"a value of the caller stays out of the message": {
			func() { panic("hunter2") },
			[]string{"panic of type string", "fault/panic_test.go:"},
		},
		"an error of the caller too": {
			func() { panic(errors.New("hunter2")) },
			[]string{"panic of type *errors.errorString", "fault/panic_test.go:"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := func() (err error) {
				defer fault.Recover(&err)
				test.work()
				return nil
			}()
			if err == nil {
				t.Fatal("the panic is no error")
			}
			for _, want := range test.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q has the value", err)
			}
		})
	}
	err := errors.New("its own")
	func() { defer fault.Recover(&err) }()
	if err.Error() != "its own" {
		t.Errorf("without a panic the error became %v", err)
	}
}
