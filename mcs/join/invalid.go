package join

// TokenReason is why a token is invalid: one word for logs and metrics.
type TokenReason string

// The reasons why a token is invalid.
const (
	// Missing: the request has no token.
	Missing TokenReason = "Missing"
	// Malformed: the request has a text that is not a token.
	Malformed TokenReason = "Malformed"
	// Unknown: no token has the id in the request.
	Unknown TokenReason = "Unknown"
	// Wrong: the token with the id in the request has another secret.
	Wrong TokenReason = "Wrong"
	// Expired: the token has expired.
	Expired TokenReason = "Expired"
	// Revoked: a user revoked the token.
	Revoked TokenReason = "Revoked"
	// UsedUp: the token has no uses left.
	UsedUp TokenReason = "UsedUp"
	// OtherPool: the token is for another pool.
	OtherPool TokenReason = "OtherPool"
)

// The HTTP statuses for an invalid token (RFC 9110, 15.5): retry with a valid token, or do not retry with this token.
const (
	unauthorized = 401
	forbidden    = 403
)

// reasons has the response and the log text of each reason. Unknown and Wrong look the same to clients.
var reasons = map[TokenReason]struct {
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

// InvalidError says why a token is invalid.
type InvalidError struct {
	// ID is the id of the token; empty if it cannot be read.
	ID string
	// Reason is why the token is invalid.
	Reason TokenReason
}

// Error returns the text for the log. The text has the id, never the secret.
func (r *InvalidError) Error() string {
	if r.ID == "" {
		return "provisioning token: " + reasons[r.Reason].log
	}
	return "provisioning token " + r.ID + ": " + reasons[r.Reason].log
}

// ClientMessage returns one line for the client. The line does not reveal which ids exist.
func (r *InvalidError) ClientMessage() string { return reasons[r.Reason].public }

// HTTPStatus returns 401 if another token may help. HTTPStatus returns 403 if the token was valid earlier or is for
// another pool.
func (r *InvalidError) HTTPStatus() int {
	if s := reasons[r.Reason].status; s != 0 {
		return s
	}
	return unauthorized
}
