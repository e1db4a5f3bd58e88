package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
)

// sessionTime is how long a browser on the user's machine may read. The console usually ends before this time.
const sessionTime = 7 * 24 * time.Hour

// loopback admits the browser that first uses the token of the printed address.
type loopback struct {
	token   *OneTime
	store   *SessionStore[*visitor]
	visitor *visitor
	refuse  func(w http.ResponseWriter, status int, text string)
}

// admit exchanges the token for a cookie. If a browser uses the token again, admit closes all sessions, because another
// user may have read the token.
func (l *loopback) admit(w http.ResponseWriter, r *http.Request, now time.Time) *visitor {
	v, signedIn := l.store.Find(r, now)
	token := r.URL.Query().Get("token")
	if r.URL.Path != "/" || token == "" {
		if !signedIn {
			if !returnToSite(w, r) {
				l.refuse(w, http.StatusUnauthorized, "not signed in: open the address that `bunsen ui` printed")
			}
			return nil
		}
		return v
	}
	if !signedIn && !l.exchange(w, r, token, now) {
		return nil
	}
	w.Header().Set("Location", "/")
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// exchange sets the cookie for a token, or refuses the token.
func (l *loopback) exchange(w http.ResponseWriter, r *http.Request, token string, now time.Time) bool {
	if r.Method != http.MethodGet {
		l.refuse(w, http.StatusUnauthorized, "not signed in")
		return false
	}
	valid, first := l.token.Use(token)
	if !valid {
		l.refuse(w, http.StatusUnauthorized, "the token of this address is not valid: open the address that `bunsen "+
			"ui` printed")
		return false
	}
	if !first {
		l.store.CloseIf(func(*visitor) bool { return true })
		l.refuse(w, http.StatusUnauthorized, "another browser used this address before, so its session has ended: "+
			"run `bunsen ui` again")
		return false
	}
	cookie, err := l.store.Open(rand.Reader, l.visitor, now, now.Add(sessionTime))
	if err != nil {
		l.refuse(w, http.StatusInternalServerError, err.Error())
		return false
	}
	http.SetCookie(w, cookie)
	return true
}

// Local is a console for one user on this machine.
type Local struct {
	listener net.Listener
	server   *Server
	visitor  *visitor
	// Address is the address that the user opens. It contains a token, which works once.
	Address string
}

// Cluster is the cluster that a console shows, and the connection of one user to it.
type Cluster struct {
	Name   string
	Config *rest.Config
	Client client.Client
	// Repo is a clone of the sources' repository on this machine; it is empty if there is no clone.
	Repo string
}

// Listen prepares a console on a port of the loopback address; port 0 is any free port.
func Listen(ctx context.Context, port uint16, c Cluster) (*Local, error) {
	kube.Silence() // The pages show the errors.
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listening on port %d: %w; --port chooses another", port, err)
	}
	user := newVisitor(kube.WhoAmI(ctx, c.Client), c.Client, watch(c.Config, c.Client))
	if c.Repo != "" {
		user.lines = linesIn(c.Repo, c.Client)
	}
	local, err := newLocal(listener, c.Name, user)
	if err != nil {
		_ = listener.Close() // The listener has served nothing.
		return nil, err
	}
	return local, nil
}

func newLocal(listener net.Listener, cluster string, v *visitor) (*Local, error) {
	token, text, err := NewOneTime(rand.Reader)
	if err != nil {
		return nil, err
	}
	host := listener.Addr().String()
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the listener: %w", err)
	}
	store := &SessionStore[*visitor]{Cookie: CookieName(port, false), Most: 1}
	access := &loopback{token: token, store: store, visitor: v}
	server := newServer(cluster, Origin{Hosts: []string{host}}, access)
	access.refuse = server.refuse
	return &Local{listener, server, v, "http://" + host + "/?token=" + text}, nil
}

// Serve answers requests until the context ends.
func (l *Local) Serve(ctx context.Context) error {
	defer l.visitor.feed.Close()
	return serve(ctx, sameUser{l.listener}, l.server)
}
