package vectors_test

import (
	"fmt"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
)

// reconcilableCase is one answer to: can a running node go from old to new?
type reconcilableCase struct {
	Case         string
	Old, New     mcfgv1.MachineConfigSpec
	Overrides    []operatorv1.IrreconcilableValidationOverridesStorage
	Reconcilable bool
	Error        string
}

var reconcilableExceptions = exceptions{}

// refusedField is the field that our refusal names.
var refusedField = map[string]string{
	"forcefile":         "storage.files /run/machine-config-daemon-force",
	"dir-remove":        "storage.directories",
	"user-core-nothing": "passwd.users core",
	"user-other":        "passwd.users bob",
	"group-add":         "passwd.groups",
	"fips-off":          "fips",
}

func TestRefusalsAgreeWithTheOriginal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load[[]reconcilableCase](t, "reconcilable.json") {
		t.Run(c.Case, func(t *testing.T) {
			overrides := disruption.OverridesOf(&operatorv1.MachineConfiguration{
				ObjectMeta: metav1.ObjectMeta{
					Annotations: map[string]string{disruption.InPlaceAnnotation: "openshift"},
				},
				Spec: operatorv1.MachineConfigurationSpec{
					IrreconcilableValidationOverrides: operatorv1.IrreconcilableValidationOverrides{
						Storage: c.Overrides,
					},
				},
			})
			got := disruption.Refuse(parse(t, c.Old), parse(t, c.New), overrides)
			if (len(got) == 0) != c.Reconcilable {
				reconcilableExceptions.differs(t, c.Case, seen, "refused for %v; the original says reconcilable=%v %s",
					got, c.Reconcilable, c.Error)
			}
			if want := refusedField[c.Case]; !c.Reconcilable &&
				(want == "" || !strings.Contains(fmt.Sprint(got), want)) {
				t.Errorf("the refusal %v does not name %q", got, want)
			}
			if len(c.Overrides) > 0 &&
				len(disruption.Refuse(parse(t, c.Old), parse(t, c.New), disruption.Overrides{OpenShift: true})) == 0 {
				t.Error("without the override it is not refused either, so the case shows nothing")
			}
		})
	}
	reconcilableExceptions.settle(t, seen)
}
