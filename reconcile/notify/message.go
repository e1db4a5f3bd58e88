package notify

import (
	"context"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// deliver sends the messages that the receiver does not have yet, and returns when to decide again. deliver records
// each sent message before it sends the next one.
func (c *Controller) deliver(ctx context.Context, n *v1alpha1.Notification, m *memory, facts Facts,
	to receiver,
) (time.Time, error) {
	known := n.DeepCopy()
	known.Status.Sent = m.sent
	d, err := Decide(known, facts, c.Now())
	if err != nil {
		return time.Time{}, err
	}
	m.sent = d.Sent
	for _, e := range d.Send {
		if err := to.send(ctx, e, c.Now()); err != nil {
			return d.Next, err
		}
		m.sent = Recorded(m.sent, Record(e, c.Now()))
		if err := c.writeStatus(ctx, n.DeepCopy(), m, outcome{}); err != nil {
			return d.Next, err
		}
	}
	return d.Next, nil
}
