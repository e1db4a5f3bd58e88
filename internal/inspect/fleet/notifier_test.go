package fleet_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// TestNotificationsThatNobodySends: a Notification without a notifier looks like one with nothing to send.
func TestNotificationsThatNobodySends(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := func(component string, age time.Duration, valid int32) coordinationv1.Lease {
		at := metav1.NewMicroTime(now.Add(-age))
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: component, Labels: map[string]string{v1alpha1.ServerLabel: component}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("vm"), RenewTime: &at, LeaseDurationSeconds: &valid,
			},
		}
	}
	notifier := func(age time.Duration, valid int32) []coordinationv1.Lease {
		return []coordinationv1.Lease{lease(v1alpha1.NotifierComponent, age, valid)}
	}
	named := func(names ...string) (all []v1alpha1.Notification) {
		for _, name := range names {
			all = append(all, v1alpha1.Notification{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return all
	}
	suspended := named("chat")
	suspended[0].Spec.Suspend = true
	none := []coordinationv1.Lease{lease(v1alpha1.ControllerComponent, time.Second, 35)}
	for name, c := range map[string]struct {
		notifications []v1alpha1.Notification
		leases        []coordinationv1.Lease
		want          string
	}{
		"a notifier reports":         {named("chat"), notifier(time.Second, 35), ""},
		"there is nothing to send":   {nil, none, ""},
		"what there is is suspended": {suspended, none, ""},
		"the Leases are not known":   {named("chat"), nil, ""},
		"there never was one": {
			named("forge", "chat"), none,
			"no machine-config-notifier has reported: nothing is sent for Notifications chat, forge",
		},
		"it ended": {
			named("chat"), notifier(time.Minute, 1),
			"no machine-config-notifier is running: nothing is sent for Notification chat",
		},
		"it was killed": {
			named("chat"), notifier(time.Minute, 35),
			"machine-config-notifier vm reports no more: nothing is sent for Notification chat",
		},
		"there are many": {
			named("a", "b", "c", "d"), none,
			"no machine-config-notifier has reported: nothing is sent for Notifications a, b, c and others",
		},
	} {
		f := fleet.New(fleet.Cluster{Leases: c.leases, Notifications: c.notifications}, now)
		got := f.ReadNotifier()
		switch {
		case c.want == "" && got != nil:
			t.Errorf("%s: %+v", name, got)
		case c.want != "" && (got == nil || got.Problem != c.want ||
			!strings.Contains(got.Text(), "notify --kubeconfig")):
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}
