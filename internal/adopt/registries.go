package adopt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// isAboutRegistries reports whether an object says where images come from.
func (o object) isAboutRegistries() bool { return kinds.IsRegistriesKind(o.apiVersion, o.kind) }

// addAllRegistries imports the objects about registries, once all pools and MachineConfigs are known. On OpenShift they
// apply to every pool, so they become documents of each pool that does not take worker's documents.
func addAllRegistries(a *adoption) {
	var all []int
	for i, o := range a.objects {
		if a.out.Objects[i].Skipped == "" && o.bad == nil && o.isAboutRegistries() {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return
	}
	var pools []string
	for _, pool := range slices.Sorted(maps.Keys(poolLabels(a))) {
		wanted := a.opts.Pools == nil || slices.Contains(a.opts.Pools, pool)
		if wanted && (pool == workerPool || !takesWorkerDocuments(a, pool)) {
			pools = append(pools, pool)
		}
	}
	taken := validRegistries(a, all)
	for _, pool := range pools {
		addRegistries(a, pool, taken)
	}
}

// validRegistries returns the documents of objects that are valid together. It sets the others aside.
func validRegistries(a *adoption, all []int) (taken []document) {
	var docs []kinds.RegistriesDocument
	for _, i := range all {
		o := a.objects[i]
		body, err := Encode(settingsBody(o))
		if bad := badName(o.name); bad != "" {
			err = errors.New(bad)
		}
		for _, pool := range slices.Sorted(maps.Keys(a.documents)) {
			name := kinds.FragmentName(pool)
			if slices.ContainsFunc(a.documents[pool], func(d document) bool { return d.config.name == name }) {
				err = fmt.Errorf("the MachineConfig %s, which a controller made of it, is imported already; keep one "+
					"of the two", name)
			}
		}
		next := kinds.RegistriesDocument{Kind: o.kind, ObjectInput: kinds.ObjectInput{
			Source: body,
			Origin: origin.Map{At: map[string]origin.Pos{"$": {File: o.at.String()}}},
		}}
		if err == nil {
			if _, findings := kinds.TranslateRegistries(append(slices.Clone(docs), next)); origin.Fatal(findings) {
				err = rejection(findings)
			}
		}
		if err != nil {
			a.setAside(i, err.Error())
			continue
		}
		docs = append(docs, next)
		taken = append(taken, document{
			config: config{index: i}, file: registriesFile(o), body: body,
			of: a.out.Objects[i].String(), shareable: true,
		})
	}
	return taken
}

// addRegistries adds the documents to one pool, with the MachineConfig that they become.
func addRegistries(a *adoption, pool string, taken []document) {
	var docs []kinds.RegistriesDocument
	for _, d := range taken {
		docs = append(docs, kinds.RegistriesDocument{
			Kind:        a.objects[d.config.index].kind,
			ObjectInput: kinds.ObjectInput{Pool: pool, Source: d.body},
		})
	}
	out, findings := kinds.TranslateRegistries(docs)
	spec, err := out.Config.Spec()
	if len(taken) == 0 || origin.Fatal(findings) || err != nil {
		return // validRegistries has set aside each object that is not valid
	}
	for _, d := range taken {
		d.config.name, d.config.pool, d.config.spec = kinds.FragmentName(pool), pool, out.Config
		a.documents[pool] = append(a.documents[pool], d)
	}
	a.out.Kept = append(a.out.Kept, &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name:   kinds.FragmentName(pool),
			Labels: map[string]string{v1alpha1.RoleLabel: pool},
		}, Spec: spec,
	})
}

// registriesFile returns the name of an object's document.
func registriesFile(o object) string {
	return strings.ToLower(o.kind) + "-" + FileName(o.name) + ".yaml"
}
