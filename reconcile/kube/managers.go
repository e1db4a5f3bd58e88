package kube

import (
	"context"
	"encoding/json"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/reconcile/revision"
)

// StandardPoolsManager is the field manager of the pools that every cluster has.
const StandardPoolsManager = client.FieldOwner("bunsen-standard-pools")

// LastManager returns the entry of the field manager that last wrote a field of an object, or a field below it, by a
// path that begins with f:spec, for example. It reads the object from the API server, and returns nil if the manager is
// not known. That of the standard pools does not count: it only restores fields.
func LastManager(ctx context.Context, live client.Reader, of client.Object,
	field ...string,
) *metav1.ManagedFieldsEntry {
	if live == nil {
		return nil
	}
	kind := revision.KindMachineConfig
	if _, isPool := of.(*mcfgv1.MachineConfigPool); isPool {
		kind = revision.KindMachineConfigPool
	}
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind(kind))
	if live.Get(ctx, client.ObjectKey{Name: of.GetName()}, o) != nil {
		return nil
	}
	var last *metav1.ManagedFieldsEntry
	for i := range o.ManagedFields {
		e := &o.ManagedFields[i]
		if e.FieldsV1 == nil || e.Time == nil || !ownsField(e.FieldsV1.GetRawBytes(), field) ||
			e.Manager == string(StandardPoolsManager) {
			continue
		}
		// In the same second, the later entry of the API server's list counts.
		if last == nil || !e.Time.Before(last.Time) {
			last = e
		}
	}
	return last
}

// ownsField reports whether a set of managed fields has the field at a path, or one below it. The entry "." alone does
// not count: it always belongs to the creator of the object.
func ownsField(set []byte, path []string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(set, &fields) != nil {
		return false
	}
	if len(path) == 0 {
		_, itself := fields["."]
		return len(fields) > 1 || !itself
	}
	below, ok := fields[path[0]]
	return ok && ownsField(below, path[1:])
}
