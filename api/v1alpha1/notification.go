package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Notification reports to a git host or to a chat what the cluster does with the commits of GitSources. The notifier, a
// process of its own, sends it. A git host gets commit statuses, and the outcome of a rollout as a comment of its pull
// request. All other receivers get messages.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=bunsen
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Notification struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NotificationSpec `json:"spec"`
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "no notifier has read it yet", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status NotificationStatus `json:"status,omitempty"`
}

// NotificationList is a list of Notification.
//
// +kubebuilder:object:root=true
type NotificationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Notification `json:"items"`
}

// NotificationSpec is the receiver and what it gets.
type NotificationSpec struct {
	// Type is the receiver: `GitHub`, `GitLab` or `Gitea` (also Forgejo) for commit statuses and comments;
	// `CloudEvents`, `Webhook`, `Slack` or `Matrix` for messages.
	// +kubebuilder:validation:Enum=GitHub;GitLab;Gitea;CloudEvents;Webhook;Slack;Matrix
	Type NotificationType `json:"type"`
	// Cluster is the name of this cluster in statuses and messages. A commit that several clusters apply gets a status
	// of each.
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`
	// +kubebuilder:default=cluster
	Cluster string `json:"cluster,omitempty"`
	// SecretRef names a Secret in namespace bunsen-notifications. It lists in `hosts` the hosts to which the notifier
	// may send the rest. The other keys depend on the type: `address`, `token`, `room` and `ca.crt`. The notifier
	// refuses a Secret with other keys.
	SecretRef NotificationSecretReference `json:"secretRef"`
	// Sources are the names of the GitSources to report. Empty means all; for a git host, all whose repositories it
	// has.
	// +kubebuilder:validation:MaxItems=100
	Sources []string `json:"sources,omitempty"`
	// Pools are the names of the pools whose rollouts messages report. Empty means all. Statuses of a git host count
	// all pools of their commit.
	// +kubebuilder:validation:MaxItems=100
	Pools []string `json:"pools,omitempty"`
	// Events are what messages report. Empty means all. A git host gets its statuses for all of them.
	// +kubebuilder:validation:MaxItems=6
	Events []NotificationEvent `json:"events,omitempty"`
	// Template is the text of a message, as a Go text template of the event's fields. Empty means one line that names
	// all of them.
	// +kubebuilder:validation:MaxLength=4096
	Template string `json:"template,omitempty"`
	// QuietHours are times at which the receiver gets no message. At their end, it gets the last state of each source
	// and pool that changed meanwhile.
	// +kubebuilder:validation:MaxItems=20
	QuietHours []QuietHours `json:"quietHours,omitempty"`
	// Suspend stops all messages and statuses. When it ends, the receiver gets the last state.
	Suspend bool `json:"suspend,omitempty"`
}

// NotificationSecretReference names a Secret in namespace bunsen-notifications, or in the namespace of the notifier's
// flag
// --secrets-namespace.
type NotificationSecretReference struct {
	// Name is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// NotificationType is a kind of receiver.
type NotificationType string

// Values of NotificationType.
const (
	NotifyGitHub      NotificationType = "GitHub"
	NotifyGitLab      NotificationType = "GitLab"
	NotifyGitea       NotificationType = "Gitea"
	NotifyCloudEvents NotificationType = "CloudEvents"
	NotifyWebhook     NotificationType = "Webhook"
	NotifySlack       NotificationType = "Slack"
	NotifyMatrix      NotificationType = "Matrix"
)

// IsGitHost reports whether the type gets commit statuses and comments instead of messages.
func (t NotificationType) IsGitHost() bool {
	return t == NotifyGitHub || t == NotifyGitLab || t == NotifyGitea
}

// NotificationEvent is a state of a GitSource or of a pool that a message reports.
//
// +kubebuilder:validation:Enum=Applied;Refused;RolloutStarted;RolloutFinished;RolloutBlocked;RolloutDegraded
type NotificationEvent string

// Values of NotificationEvent.
const (
	EventApplied NotificationEvent = "Applied"
	// EventRefused means that the controller refused the newest commit.
	EventRefused NotificationEvent = "Refused"
	// EventRolloutStarted means that a pool updates its nodes to a config.
	EventRolloutStarted  NotificationEvent = "RolloutStarted"
	EventRolloutFinished NotificationEvent = "RolloutFinished"
	// EventRolloutBlocked means that a pool should make progress but does not.
	EventRolloutBlocked NotificationEvent = "RolloutBlocked"
	// EventRolloutDegraded means that nodes of a pool fail its config, or that the controller cannot render the pool.
	EventRolloutDegraded NotificationEvent = "RolloutDegraded"
)

// QuietHours is a recurring time without messages.
type QuietHours struct {
	// Schedule is when it begins: five cron fields, or @daily, @weekly and so on.
	// +kubebuilder:validation:MinLength=1
	Schedule string `json:"schedule"`
	// Duration is how long it lasts, in elapsed time.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Duration metav1.Duration `json:"duration"`
	// TimeZone is the IANA name of the schedule's time zone.
	// +kubebuilder:default=UTC
	TimeZone string `json:"timeZone,omitempty"`
}

// NotificationStatus is what the notifier did last.
type NotificationStatus struct {
	// ObservedGeneration is the generation of the spec that this status belongs to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Sent is the last state of each source and pool that the receiver got, or that the spec does not select. The
	// notifier sends a state again only after another one. For a git host it is empty: the git host itself has the
	// statuses.
	// +listType=map
	// +listMapKey=subject
	Sent []SentState `json:"sent,omitempty"`
	// Conditions are Ready.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SentState is the last state of one source or pool that the receiver got.
type SentState struct {
	// Subject is `source/NAME` or `pool/NAME`.
	Subject string `json:"subject"`
	// ID identifies the state.
	ID string `json:"id"`
	// Time is when the notifier recorded it.
	Time metav1.Time `json:"time"`
}

// Reasons of a Notification's condition Ready, beside Succeeded, Suspended and InvalidSpec.
const (
	// ReasonSecretInvalid means that the Secret is missing or cannot be used.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonDeliveryFailed means that the receiver did not accept a message or a status. The notifier tries again.
	ReasonDeliveryFailed = "DeliveryFailed"
)
