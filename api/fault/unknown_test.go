package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bunsen-os/bunsen/api/fault"
)

// TestWhichFailuresAreAnswers has every kind of failure that a request can have. An answer decides; everything else
// needs a look.
func TestWhichFailuresAreAnswers(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	bus := func(name string) error { return fault.BusRequest(errors.New("text"), name) }
	for says, c := range map[string]struct {
		err     error
		unknown bool
	}{
		"logind refuses":                      {bus("org.freedesktop.DBus.Error.AccessDenied"), false},
		"logind has something else under way": {bus("org.freedesktop.login1.OperationInProgress"), false},
		"nobody has the name":                 {bus("org.freedesktop.DBus.Error.ServiceUnknown"), false},
		"logind died before it answered":      {bus("org.freedesktop.DBus.Error.NoReply"), true},
		"the bus hung up":                     {bus("org.freedesktop.DBus.Error.Disconnected"), true},
		"the connection was closed":           {bus(""), true},
		"the time is over":                    {fault.BusRequest(context.DeadlineExceeded, ""), true},
		"another version":                     {fault.APIRequest(apierrors.NewConflict(nodes, "a", io.EOF)), false},
		"it exists":                           {fault.APIRequest(apierrors.NewAlreadyExists(nodes, "a")), false},
		"no permission":                       {fault.APIRequest(apierrors.NewForbidden(nodes, "a", io.EOF)), false},
		"a budget, or too many requests":      {fault.APIRequest(apierrors.NewTooManyRequests("later", 1)), false},
		"a refusal that was wrapped": {
			fault.APIRequest(fmt.Errorf("writing: %w", apierrors.NewNotFound(nodes, "a"))), false,
		},
		"etcd took too long":                    {fault.APIRequest(apierrors.NewTimeoutError("later", 1)), true},
		"the server gave up":                    {fault.APIRequest(apierrors.NewServerTimeout(nodes, "patch", 1)), true},
		"a request that the shutdown cut short": {fault.APIRequest(apierrors.NewInternalError(io.EOF)), true},
		"a proxy in front of the server": {
			fault.APIRequest(apierrors.NewGenericServerResponse(502, "patch", nodes, "a", "bad gateway", 0, true)),
			true,
		},
		"no status at all":             {fault.APIRequest(io.ErrUnexpectedEOF), true},
		"refused, maybe after a retry": {fault.APIRequest(syscall.ECONNREFUSED), true},
		"a status without a code":      {fault.APIRequest(&apierrors.StatusError{ErrStatus: metav1.Status{}}), true},
		"a git host refuses":           {fault.HTTPRequest(io.EOF, 422), false},
		"a git host fails":             {fault.HTTPRequest(io.EOF, 500), false},
		"a gateway lost the git host":  {fault.HTTPRequest(io.EOF, 502), true},
		"a git host does not answer":   {fault.HTTPRequest(io.EOF, 0), true},
	} {
		if got := fault.IsUnknown(fmt.Errorf("doing it: %w", c.err)); got != c.unknown {
			t.Errorf("%s: unknown is %t: %v", says, got, c.err)
		}
	}
	if fault.APIRequest(nil) != nil || fault.BusRequest(nil, "") != nil || fault.HTTPRequest(nil, 0) != nil {
		t.Error("success is unknown")
	}
	if err := fault.NewUnknown(fault.NewUnknown(io.EOF)); err.Error() != "it is unknown whether this was done: EOF" {
		t.Errorf("marked twice: %v", err)
	}
}
