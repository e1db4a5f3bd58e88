package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/schedule"
	"github.com/prometheus/common/model"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/rollout/poolstate"
	corev1 "k8s.io/api/core/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// poolLabel is on a gate's job, beside v1alpha1.GateLabel and the labels of the CronJob's template.
const poolLabel = "bunsen.dev/pool"

// configAnnotation: the rendered config of a gate's job, whose name is too long for a label
const configAnnotation = "bunsen.dev/config"

// NewJob returns the job that a CronJob describes, with the question in its environment. The CronJob owns it, so its
// history limits apply.
func NewJob(cron *batchv1.CronJob, name string, q Question, gate string) *batchv1.Job {
	yes := true
	template := cron.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cron.Namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: cron.Name, UID: cron.UID,
				Controller: &yes,
			}},
		},
		Spec: template.Spec,
	}
	maps.Copy(job.Labels, template.Labels)
	maps.Copy(job.Annotations, template.Annotations)
	job.Labels[v1alpha1.GateLabel], job.Labels[poolLabel] = label(gate), label(q.Pool)
	job.Annotations["cronjob.kubernetes.io/instantiate"], job.Annotations[configAnnotation] = "manual", q.Config
	env := []corev1.EnvVar{
		{Name: "BUNSEN_POOL", Value: q.Pool},
		{Name: "BUNSEN_CONFIG", Value: q.Config},
		{Name: "BUNSEN_STEP", Value: strconv.Itoa(q.Step)},
	}
	pod := &job.Spec.Template.Spec
	for i := range pod.InitContainers {
		pod.InitContainers[i].Env = withEnv(pod.InitContainers[i].Env, env)
	}
	for i := range pod.Containers {
		pod.Containers[i].Env = withEnv(pod.Containers[i].Env, env)
	}
	return job
}

// withEnv puts variables before those of a container, which may refer to them.
func withEnv(have, add []corev1.EnvVar) []corev1.EnvVar {
	out := append([]corev1.EnvVar{}, add...)
	for _, e := range have {
		if !strings.HasPrefix(e.Name, "BUNSEN_") || e.Name != add[0].Name && e.Name != add[1].Name &&
			e.Name != add[2].Name {
			out = append(out, e)
		}
	}
	return out
}

// Job returns the result of a job. If the job failed, failedAt is the time of the failure.
func Job(job *batchv1.Job) (answer poolstate.Gate, failedAt time.Time) {
	name := job.Namespace + "/" + job.Name
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return Open(), time.Time{}
		case batchv1.JobFailed:
			why := poolstate.ShortLine(fmt.Sprintf("job %s failed: %s", name, cmp.Or(c.Reason, "no reason given")+
				prefixed(": ", c.Message)))
			return poolstate.Gate{Verdict: poolstate.GateFailed, Why: why}, c.LastTransitionTime.Time
		case batchv1.JobSuspended:
			return Waits("job %s is suspended: the template of its CronJob or a user suspended it", name), time.Time{}
		}
	}
	if n := job.Status.Failed; n > 0 {
		return Waits("job %s runs, %d of its pods failed so far", name, n), time.Time{}
	}
	return Waits("job %s runs", name), time.Time{}
}

// JobName returns a name that is unique for a question and an attempt, also by the begin of the rollout, because a
// later one may have a config with the same name. A job's name is a label of its pods, so it has at most 63 characters.
func JobName(q Question, gate *v1alpha1.HealthGate, attempt time.Time) string {
	text := strings.Join([]string{
		q.Pool, q.Config, q.Began.UTC().Format(time.RFC3339), strconv.Itoa(q.Step), gate.Name,
		gate.Job.CronJob.Name,
	}, "\n")
	if !attempt.IsZero() {
		text += "\n" + attempt.UTC().Format(time.RFC3339)
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("bunsen-%s-%d-%s", dns(q.Pool, 36), q.Step, hex.EncodeToString(sum[:5]))
}

// dns converts a text to a part of an object's name: lower case letters, digits and dashes.
func dns(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(clean[:min(len(clean), most)], "-")
}

func label(text string) string { return dns(text, 63) }

// Question describes which gates of a pool to evaluate.
type Question struct {
	// Pool rolls out Config. Step counts from 0.
	Pool, Config string
	Step         int
	// Began tells rollouts apart, because jobs run again if a config returns later.
	Began time.Time
	// The step's nodes are healthy, so that its jobs have to run now.
	Due bool
	// RetryAt is when a user requested a retry; zero for none. A job that failed before runs once more.
	RetryAt time.Time
	Pace    schedule.Pace
	Now     time.Time
}

// Open returns the answer of an open gate.
func Open() poolstate.Gate { return poolstate.Gate{Verdict: poolstate.GateOpen} }

// Waits returns the answer of a closed gate that may open later.
func Waits(format string, args ...any) poolstate.Gate {
	return poolstate.Gate{Verdict: poolstate.GateWaits, Why: fmt.Sprintf(format, args...)}
}

// prefixed is empty for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Query evaluates a server's answer to a query. The answer is true if it has at least one sample and no sample is 0.
func Query(value model.Value, server string) poolstate.Gate {
	switch v := value.(type) {
	case *model.Scalar:
		if isFalse(v.Value) {
			return Waits("%s answers %s", server, v.Value)
		}
		return Open()
	case model.Vector:
		return vector(v, server)
	}
	return Waits("%s answers a %s, which is neither true nor false: write a query for one moment, such as up == 1",
		server, kindOf(value))
}

func vector(v model.Vector, server string) poolstate.Gate {
	if len(v) == 0 {
		return Waits("%s answers nothing to the query, which counts as false", server)
	}
	var against []string
	for _, s := range v {
		switch {
		case s.Histogram != nil:
			return Waits("%s answers a histogram, which is neither true nor false: compare it, such as "+
				"histogram_quantile(0.99, …) < 1", server)
		case isFalse(s.Value):
			against = append(against, fmt.Sprintf("%s is %s", s.Metric, strconv.FormatFloat(float64(s.Value), 'g', -1,
				64)))
		}
	}
	switch len(against) {
	case 0:
		return Open()
	case 1:
		return Waits("%s", poolstate.ShortLine(against[0]+", says "+server))
	}
	return Waits("%s", poolstate.ShortLine(fmt.Sprintf("%s and %d more like it, says %s", against[0], len(against)-1,
		server)))
}

// isFalse: 0 or not a number.
func isFalse(v model.SampleValue) bool { return v == 0 || math.IsNaN(float64(v)) }

func kindOf(v model.Value) string {
	if v == nil {
		return "thing that is not there"
	}
	return v.Type().String()
}
