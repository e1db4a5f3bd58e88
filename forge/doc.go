// Package forge tells a pull request, on whichever service hosts it, what a change does: one comment that is edited in
// place, and one commit status.
//
// In: the environment of a continuous-integration job, a comment, a Host to speak to. Out: what was done. Never: a
// comment of somebody else touched, two comments where one will do, a token in an error.
package forge
