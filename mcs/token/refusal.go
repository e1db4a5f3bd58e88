package token

// Reason is why a token does not do. It is a word for logs and counters.
type Reason string

// Reasons of a Refusal.
const (
	// Missing: the request has no token.
	Missing Reason = "Missing"
	// Malformed: what it has is no token.
	Malformed Reason = "Malformed"
	// Unknown: there is no token of that id.
	Unknown Reason = "Unknown"
	// Wrong: the secret is not that of the token of that id.
	Wrong Reason = "Wrong"
	// Expired: its time is over.
	Expired Reason = "Expired"
	// Revoked: somebody ended it.
	Revoked Reason = "Revoked"
	// UsedUp: it was used as often as it may be.
	UsedUp Reason = "UsedUp"
	// OtherPool: it is for the config of another pool.
	OtherPool Reason = "OtherPool"
)

// Answers of HTTP (RFC 9110, 15.5): ask with a token that is good, and do not ask again with this one.
const (
	unauthorized = 401
	forbidden    = 403
)

// refusals has what each reason means for whoever asked, and for the log. Unknown and wrong read the same to the client.
var refusals = map[Reason]struct {
	status      int
	public, log string
}{
	Missing:   {unauthorized, "a provisioning token is needed", "there is none"},
	Malformed: {unauthorized, "that is no provisioning token", "malformed"},
	Unknown:   {unauthorized, "the provisioning token is not known here", "unknown"},
	Wrong:     {unauthorized, "the provisioning token is not known here", "wrong secret"},
	Expired:   {unauthorized, "the provisioning token has expired", "expired"},
	Revoked:   {forbidden, "the provisioning token was revoked", "revoked"},
	UsedUp:    {forbidden, "the provisioning token is used up", "used up"},
	OtherPool: {forbidden, "the provisioning token is for another pool", "for another pool"},
}

// Refusal says why a token does not do.
type Refusal struct {
	// ID of the token; empty where none could be read.
	ID string
	// Reason for it.
	Reason Reason
}

// Error is for the log. It has the id, never the secret.
func (r *Refusal) Error() string {
	if r.ID == "" {
		return "provisioning token: " + refusals[r.Reason].log
	}
	return "provisioning token " + r.ID + ": " + refusals[r.Reason].log
}

// Public is for whoever asked: one line without its end, that does not tell which ids there are.
func (r *Refusal) Public() string { return refusals[r.Reason].public }

// Status is the HTTP status of the answer: 401 where another token may help, 403 where this one was good once or elsewhere.
func (r *Refusal) Status() int {
	if s := refusals[r.Reason].status; s != 0 {
		return s
	}
	return unauthorized
}
