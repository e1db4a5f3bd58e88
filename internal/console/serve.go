package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Local is a console for one user on this machine.
type Local struct {
	listener net.Listener
	server   *Server
	visitor  *visitor
	// Address is what the user opens. It contains a token, which works once.
	Address string
}

// Cluster is the cluster that a console shows, and the connection of one user to it.
type Cluster struct {
	Name   string
	Config *rest.Config
	Client client.Client
	// Repo is a clone of the sources' repository on this machine; empty for none.
	Repo string
	// ReadOnly: the pages have no actions.
	ReadOnly bool
}

// Listen prepares a console on a port of the loopback address; port 0 is any free port.
func Listen(ctx context.Context, port uint16, c Cluster) (*Local, error) {
	kube.Silence() // The pages show the errors.
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("listening on port %d: %w; --port chooses another", port, err)
	}
	v := newVisitor(kube.WhoAmI(ctx, c.Client), c.Client, followAs(c.Config, c.Client))
	v.readOnly = c.ReadOnly
	if c.Repo != "" {
		v.lines = linesIn(c.Repo, c.Client)
	}
	local, err := newLocal(listener, c.Name, v)
	if err != nil {
		_ = listener.Close() // The listener has served nothing.
		return nil, err
	}
	return local, nil
}

// followAs follows the cluster with the rights of the client.
func followAs(rc *rest.Config, c client.Client) FeedSource[*state] {
	return statesOf(func(ctx context.Context, publish func(fleet.Cluster, error)) {
		// A publisher returns no error.
		_ = kube.FollowObjects(ctx, rc, c, &publisher{publish: publish})
	})
}

func linesIn(repo string, c client.Reader) func(context.Context, string) view.ContentLines {
	return func(ctx context.Context, config string) view.ContentLines {
		of, err := kube.Trace(ctx, c, "mc/"+config)
		if err == nil {
			err = of.Items(ctx, repo)
		}
		if err != nil {
			return view.ContentLines{Note: "The lines are not known: " + err.Error()}
		}
		lines := view.ContentLines{At: map[string]string{}, Note: of.Trace.Note}
		for _, it := range of.Trace.Items {
			lines.At[it.Item] = it.Place
		}
		return lines
	}
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
	if v.readOnly {
		server.actions = nil
	}
	return &Local{listener, server, v, "http://" + host + "/?token=" + text}, nil
}

// Serve answers requests until the context ends.
func (l *Local) Serve(ctx context.Context) error {
	defer l.visitor.feed.Close()
	l.visitor.feed.Hold()() // The first page comes soon, and does not wait for what is read until then.
	return serve(ctx, sameUser{l.listener}, l.server)
}

// sessionTime: the console usually ends before.
const sessionTime = 7 * 24 * time.Hour

// loopback admits the browser that first uses the token of the printed address.
type loopback struct {
	token   *OneTime
	store   *SessionStore[*visitor]
	visitor *visitor
	refuse  func(w http.ResponseWriter, status int, text string)
}

// admit exchanges the token for a cookie. A second use closes all sessions, because another user may have read the
// token.
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

func (l *loopback) formToken(r *http.Request, now time.Time) string { return l.store.FormToken(r, now) }

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

// mostHTTP2Streams limits the requests of a connection at a time.
const mostHTTP2Streams = 100

// serve logs nothing, because the path of a request may contain a token.
func serve(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: mostHeader,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
		// The tabs of a browser share one connection, with a stream of changes for each. HTTP/1.1 has six for all.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: mostHTTP2Streams},
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return fmt.Errorf("serving the console: %w", err)
	case <-ctx.Done():
		_ = server.Close() // Streams never end by themselves, so Close ends them.
		<-stopped
		return nil
	}
}

// Origin is the address at which browsers find the console.
type Origin struct {
	// Hosts are the permitted values of the header Host, with the port. With another name for the same address (DNS
	// rebinding), a page of another site could read the console.
	Hosts []string
	// TLS: browsers use https.
	TLS bool
}

var (
	// ErrHost is the refusal of a request for another host.
	ErrHost = errors.New("this server does not serve that host: open the address that it printed")
	// ErrOtherSite is the refusal of a request that a page of another site sent.
	ErrOtherSite = errors.New("a page of another site sent this request: open the console itself")
)

// CheckHost refuses a request for a host that the console does not serve.
func (o Origin) CheckHost(r *http.Request) error {
	if !slices.Contains(o.Hosts, r.Host) {
		return ErrHost
	}
	return nil
}

// CheckSite refuses a request of another site's page, by headers that browsers set and pages cannot change. A program
// may leave them out, but has no cookie of a user.
func (o Origin) CheckSite(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site")
	switch site {
	case "", "same-origin", "none":
	default:
		return ErrOtherSite
	}
	for _, origin := range r.Header.Values("Origin") {
		if origin == "null" && site == "same-origin" {
			continue // Browsers hide the origin of a page that sends no referrers.
		}
		if origin != o.scheme()+"://"+r.Host {
			return ErrOtherSite
		}
	}
	return nil
}

func (o Origin) scheme() string {
	if o.TLS {
		return "https"
	}
	return "http"
}

// socketTables: the TCP sockets of Linux with their owners. An IPv4 address may be behind a socket for IPv6.
var socketTables = []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"}

// sameUser accepts connections of programs of this process's user, and of root. Where the tables do not exist or do not
// have the connection, its user is unknown, and it is accepted.
type sameUser struct{ net.Listener }

// Accept closes connections of other users, and returns the first connection of the same user.
func (l sameUser) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		owner, known := ownerOf(conn)
		if !known || mayConnect(owner, os.Getuid(), os.Getenv("SUDO_UID")) {
			return conn, nil
		}
		_ = conn.Close() // The other user gets no answer.
	}
}

// mayConnect reports whether a user may connect to the console of another one. sudo is the user who ran it, or empty.
func mayConnect(owner, own int, sudo string) bool {
	return owner == 0 || owner == own || strconv.Itoa(owner) == sudo
}

// ownerOf returns the user whose program opened the other end of a connection on this machine.
func ownerOf(conn net.Conn) (uid int, known bool) {
	client, errClient := netip.ParseAddrPort(conn.RemoteAddr().String())
	server, errServer := netip.ParseAddrPort(conn.LocalAddr().String())
	if errClient != nil || errServer != nil {
		return 0, false
	}
	for _, name := range socketTables {
		table, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if uid, known := ownerIn(table, client, server); known {
			return uid, true
		}
	}
	return 0, false
}

// ownerIn finds a socket in a table: column 2 is its own address, 3 the other end, and 8 its owner.
func ownerIn(table []byte, own, other netip.AddrPort) (uid int, known bool) {
	for line := range bytes.Lines(table) {
		columns := strings.Fields(string(line))
		if len(columns) < 8 || !slices.Contains(tableTexts(own), columns[1]) || !slices.Contains(tableTexts(other),
			columns[2]) {
			continue
		}
		uid, err := strconv.Atoi(columns[7])
		return uid, err == nil
	}
	return 0, false
}

// tableTexts returns an IPv4 address as the tables have it, in hexadecimal digits. On little-endian machines, the bytes
// of each group of four are reversed.
func tableTexts(a netip.AddrPort) []string {
	v4, v6 := a.Addr().Unmap().As4(), netip.AddrFrom16(netip.AddrFrom4(a.Addr().Unmap().As4()).As16()).As16()
	var texts []string
	for _, raw := range [][]byte{v4[:], v6[:]} {
		reversed := slices.Clone(raw)
		for group := range slices.Chunk(reversed, 4) {
			slices.Reverse(group)
		}
		for _, b := range [][]byte{raw, reversed} {
			texts = append(texts, fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(b)), a.Port()))
		}
	}
	return texts
}
