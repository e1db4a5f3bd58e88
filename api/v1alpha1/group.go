package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "bunsen.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package in s. It fails only if another type has one of the names.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &GitSource{}, &GitSourceList{}, &DriftPolicy{}, &DriftPolicyList{}, &RolloutPolicy{},
		&RolloutPolicyList{}, &ProvisioningToken{}, &ProvisioningTokenList{},
		&RevisionContent{}, &RevisionContentList{}, &BunsenStatus{}, &BunsenStatusList{}, &Notification{},
		&NotificationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
