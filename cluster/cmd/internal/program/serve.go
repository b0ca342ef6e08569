package program

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/spf13/cobra"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/cluster/cmd/internal/server"
)

// serveCommand runs a member. Its options are on the page docs/SHALED.md, sections 1 to 3 and 11.
func serveCommand(env Environment) *cobra.Command {
	var c config
	cmd := newCommand("serve DIR [--id ID [--bootstrap | --join HOST:PORT]]", "run a server, alone or as a member of a group", `
Serves clients of Redis, which connect to --addr, from the folder DIR, which it makes if there is none. SIGTERM and Ctrl-C
end it. --http has /metrics for Prometheus, /health for load balancers, and pages for people.

With --id it is a member of a group, which has the same store on several machines. The first member is started with
--bootstrap, the others with --join and the --listen address of a member that runs. Later starts need neither, and both
do no harm. Clients may talk to any member; writes go to the member that leads.

Without TLS and a password it listens on loopback only.`, 1, 1, func(ctx context.Context, words []string) error {
		c.dir = words[0]
		return c.serve(ctx, env)
	})
	c.flags(cmd)
	c.backupFlags(cmd)
	return cmd
}

// Times that the end of a member takes at most.
const (
	transferGrace = 5 * time.Second // for handing over the lead
	clientsGrace  = 5 * time.Second // for commands that have begun
	pagesGrace    = 2 * time.Second // for requests of pages
)

// A member is a running member of a group, or a server that is alone, with what it serves.
type member struct {
	config  config
	node    *cluster.Node // nil: it is alone, and has the next two
	db      *shale.DB
	closeDB func() error
	server  *server.Server
	log     *log.Logger
	started time.Time
	backups *backups // nil: none
	admin   atomic.Pointer[server.Password]
	tls     security

	addr, http string // where it listens
	addresses  addresses
	pages      pages
}

// logFlags put date and time before a line, as journalctl and people expect.
const logFlags = log.LstdFlags | log.Lmsgprefix

// logf prints a line for the operator. Warnings begin with "warning: ", which monitoring can look
// for.
func (m *member) logf(format string, args ...any) { m.log.Printf(format, args...) }

// serve runs the member until ctx is done, or the member fails.
//
// It listens before it opens the member, since a port that is taken is the most frequent mistake,
// and a member that was opened for nothing may have made a group.
func (c *config) serve(ctx context.Context, env Environment) error {
	if c.http == "none" {
		c.http = ""
	}
	if err := c.secrets.read(env.Getenv); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	security, err := c.security()
	if err != nil {
		return err
	}
	m := &member{config: *c, tls: security, log: log.New(env.Err, "", logFlags), started: time.Now()}
	for _, w := range c.warnings() {
		m.logf("warning: %s", w)
	}
	clients, err := listen(c.addr, m.tls.clients)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	defer clients.Close() // run has closed it, if it came so far
	var web net.Listener
	if c.http != "" {
		if web, err = listen(c.http, m.tls.clients); err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		defer web.Close() // likewise
		m.http = web.Addr().String()
	}
	m.addr = clients.Addr().String()
	m.admin.Store(server.NewPassword(c.secrets.admin))
	if err := m.open(env); err != nil {
		return err
	}
	if m.node == nil {
		m.logf("serves clients on %s, pages on %s, from %s", m.addr, m.pagesURL(), c.dir)
	} else {
		m.logf("member %s serves clients on %s, members on %s, pages on %s", c.ID, m.addr, m.node.Address(), m.pagesURL())
	}
	if env.Ready != nil {
		env.Ready(m)
	}
	return m.run(ctx, clients, web)
}

// listen listens on an address, with TLS if there is a configuration.
func listen(addr string, t *tls.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err == nil && t != nil {
		l = tls.NewListener(l, t)
	}
	return l, err
}

// open opens the member and makes its server.
func (m *member) open(env Environment) error {
	c := &m.config
	o := c.Options
	o.About, o.TLS = m.about, m.tls.members
	o.Store = &shale.Options{CacheSize: c.cache, Tuning: shale.Tuning{FilterHash: shale.SipHash}} // clients choose the keys
	o.Raft = func(r *raft.Config) {
		r.HeartbeatTimeout, r.ElectionTimeout, r.LeaderLeaseTimeout = c.heartbeat, c.heartbeat, c.heartbeat/2
		r.CommitTimeout = min(r.CommitTimeout, c.heartbeat/4)
		r.Logger = hclog.New(&hclog.LoggerOptions{Name: "raft", Level: hclog.LevelFromString(c.raftLog), Output: env.Err})
	}
	if err := m.openBackups(&o); err != nil {
		return err
	}
	s := c.Config
	s.Explain, s.Again, s.Unknown, s.Info = m.explain, m.again, unknown, m.info
	s.Local, s.Password, s.ReadPassword, s.Fsync = c.reads == readsLocal, c.secrets.password, c.secrets.readPassword, c.sync
	if c.ID == "" {
		store, err := m.openAlone(o)
		if err != nil {
			return err
		}
		s.Store = store
		m.server = server.New(s)
		if err := m.server.Prepare(context.Background()); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", filepath.Join(c.dir, aloneStore), err), m.closeDB())
		}
		return nil
	}
	if err := refuseAlone(c.dir); err != nil {
		return err
	}
	node, err := cluster.Open(c.dir, &o)
	if err != nil {
		return err
	}
	m.node = node
	s.Store, s.Members, s.Leads, s.Others = grouped{node}, m.clientMembers, node.IsLeader, m.others
	m.server = server.New(s)
	return nil
}

// run serves until ctx is done, or something fails. It ends everything.
//
// Four things can end a member: the operator, a failure of the group's member, and either server by
// itself. In all cases clients get a few seconds for their answers, the pages end, and the node is
// closed last, because both servers ask it.
func (m *member) run(ctx context.Context, clients, web net.Listener) error {
	serving, stopServing := context.WithCancel(context.Background())
	defer stopServing()
	var err, clientsErr error
	var running sync.WaitGroup
	clientsEnd := make(chan struct{})
	running.Go(func() {
		defer close(clientsEnd)
		clientsErr = m.server.Serve(serving, clients, clientsGrace)
	})
	var failed <-chan struct{}
	if m.node != nil {
		failed = m.node.Failed()
		running.Go(func() { m.sayAlone(serving) })
	}
	running.Go(func() { m.reread(serving) })
	webEnd := make(chan error, 1)
	var site *http.Server
	if web != nil {
		site = &http.Server{
			Handler: m.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: log.New(m.log.Writer(), "pages: ", logFlags),
		}
		go func() { webEnd <- site.Serve(web) }()
	}
	select {
	case <-ctx.Done():
		m.handOver()
	case <-failed:
		err = m.node.Err()
	case <-clientsEnd:
	case err = <-webEnd:
		err = fmt.Errorf("the server for pages ended: %w", err)
	}
	stopServing()
	running.Wait()
	err = errors.Join(err, clientsErr)
	if site != nil {
		grace, cancel := context.WithTimeout(context.Background(), pagesGrace)
		defer cancel()
		if site.Shutdown(grace) != nil {
			_ = site.Close() // requests that take too long are cut off
		}
	}
	// The first error is returned: an error of Close usually follows from it.
	counts := m.server.Counts()
	end, name := m.closeDB, "shaled"
	if m.node != nil {
		end, name = m.node.Close, "member "+m.config.ID
	}
	if cerr := end(); err == nil {
		err = cerr
	}
	m.logf("%s stopped after %d commands", name, counts.All)
	return err
}

// aloneLook is how often a member looks whether it is in a group: it may be in one for a moment only. aloneEvery is how
// often it says that it is in none.
const (
	aloneLook  = 100 * time.Millisecond
	aloneEvery = 10 * time.Second
)

// sayAlone says what to do when the member is in no group, or in none any more, until ctx is done.
func (m *member) sayAlone(ctx context.Context) {
	next, was, said := time.Now().Add(time.Second), false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(aloneLook):
		}
		all, _ := m.node.Members() // none of a member that has stopped
		is := slices.ContainsFunc(all, func(one cluster.Member) bool { return one.ID == m.config.ID }) && !m.node.Stats().Removed
		was, said = was || is, said && !is
		if is || said || !was && time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(aloneEvery)
		switch c := &m.config; {
		case was:
			said = true
			m.logf("warning: this member was removed from its group: end it; to take it in again, start it with --join and an empty folder")
		case len(all) > 0:
		case len(c.Join) > 0:
			m.logf("not in a group yet: the members at %s have not let it in; see that one of them runs, has a leader, and does not know another member %s (shaled members)",
				strings.Join(c.Join, ", "), c.ID)
		default:
			m.logf("not in a group yet: take it in with shaled join %s %s, or start it with --join or --bootstrap", c.ID, m.node.Address())
		}
	}
}

// handOver gives the lead to another member, if this one leads and another can. A group without its leader would
// have to notice that first.
func (m *member) handOver() {
	if m.node == nil {
		return
	}
	s := m.node.Stats()
	if !m.node.IsLeader() || s.Voters < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), transferGrace)
	defer cancel()
	if err := m.node.TransferLeadership(ctx, ""); err != nil {
		m.logf("the lead could not be handed over, so the others will elect a leader: %s", message(err))
		return
	}
	m.logf("handed over the lead")
}

// explain returns an error of the group in the words of Redis.
//
// Clients of Redis look at the first word alone. UNKNOWN is a word of our own: there is none in
// Redis for a write that may have happened. CLUSTERDOWN and MOVED are those of Redis Cluster, whose
// clients try again or go elsewhere.
func (m *member) explain(err error) string {
	var other *cluster.NotLeaderError
	switch {
	case errors.Is(err, cluster.ErrUnknown):
		return "UNKNOWN " + message(err)
	case errors.Is(err, shale.ErrReadOnly):
		return "READONLY the store takes no writes: " + message(err)
	case m.config.ID == "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return "ERR the command took longer than --timeout; nothing was written: " + message(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "CLUSTERDOWN the group does not answer in time; nothing was written: " + message(err)
	case errors.As(err, &other) && other.ID == "":
		return "CLUSTERDOWN no member leads the group at the moment; nothing was written"
	case errors.As(err, &other) && m.config.Forward:
		return fmt.Sprintf("CLUSTERDOWN member %s leads and could not be reached in time; nothing was written", other.ID)
	case errors.As(err, &other):
		if addr := m.addressOf(other.ID); addr != "" {
			return "MOVED 0 " + addr
		}
		return fmt.Sprintf("READONLY this member does not lead: write to member %s, whose address for members is %s", other.ID, other.Address)
	case errors.Is(err, cluster.ErrFailed), errors.Is(err, cluster.ErrClosed):
		return "ERR this member has stopped: " + message(err)
	case errors.Is(err, cluster.ErrReservedKey):
		return "ERR " + message(err)
	}
	return "ERR the store: " + message(err)
}

// unknown reports whether nobody knows if a write has happened.
func unknown(err error) bool { return errors.Is(err, cluster.ErrUnknown) }

// again reports whether a write has not happened and may succeed soon: the leader has changed, or is being
// elected.
func (m *member) again(err error) bool {
	var other *cluster.NotLeaderError
	return errors.As(err, &other) && !errors.Is(err, cluster.ErrUnknown) && (m.config.Forward || other.ID == "")
}
