package program

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cluster"
	"github.com/shaledb/shale/internal/signals"
	"github.com/shaledb/shale/internal/testenv"
)

// childArgs in the environment makes the test's program shaled itself, with these arguments.
const childArgs = "SHALED_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, child := os.LookupEnv(childArgs); child {
		ctx, stop := signals.UntilStop(0)
		defer stop()
		os.Exit(Run(ctx, Environment{Args: strings.Split(args, "\x1f"), Out: os.Stdout, Err: os.Stderr, Getenv: func(string) string { return "" }}))
	}
	os.Exit(m.Run())
}

// run runs a command that ends by itself.
func run(ctx context.Context, args ...string) (out, notes string, status int) {
	var o, e bytes.Buffer
	status = Run(ctx, Environment{Args: args, Out: &o, Err: &e, Getenv: func(string) string { return "" }})
	return o.String(), e.String(), status
}

// must runs a command that has to succeed, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, notes, status := run(t.Context(), args...)
	if status != done {
		t.Fatalf("%q: status %d, %s%s", args, status, out, notes)
	}
	return out
}

// mustNil ends the test with an error.
func mustNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A running member is one in this process.
type running struct {
	*member
	args   []string
	cancel context.CancelFunc
	ended  chan int
	notes  *lockedBuffer
	stop   func() int
}

// A lockedBuffer is what a member prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// quick are options that make elections quick. Groups have steady in addition, so that a busy machine holds no elections.
var (
	quick  = []string{"--heartbeat", "400ms", "--timeout", "1m", "--raft-log", "error"}
	steady = []string{"--heartbeat", "1s"}
)

// seed makes the folder of the first member of a group, which then need not listen for another group of its own.
func seed(t testing.TB, dir, id string) {
	t.Helper()
	from := filepath.Join(testenv.QuickDir(t), "store")
	db, err := shale.Open(from, nil)
	if err == nil {
		err = errors.Join(db.Close(), cluster.Seed(dir, from, &cluster.Options{ID: id}))
	}
	mustNil(t, err)
}

// start starts a member in this process, which is stopped when the test ends.
func start(t testing.TB, args ...string) *running {
	t.Helper()
	r := &running{args: args, ended: make(chan int, 1), notes: new(lockedBuffer)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ready := make(chan *member, 1)
	go func() {
		r.ended <- Run(ctx, Environment{
			Args: slices.Concat([]string{"serve"}, quick, args), Err: r.notes, Getenv: func(string) string { return "" },
			Ready: func(m *member) { ready <- m },
		})
	}()
	r.stop = sync.OnceValue(func() int {
		cancel()
		return <-r.ended
	})
	t.Cleanup(func() {
		if status := r.stop(); status != done {
			t.Errorf("a member ended with status %d: %s", status, r.notes)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", args[0], r.notes)
		}
	})
	select {
	case r.member = <-ready:
	case status := <-r.ended:
		r.ended <- status
		t.Fatalf("a member ended with status %d: %s", status, r.notes)
	}
	return r
}

// three starts a group of three members in this process. more are options of all.
func three(t testing.TB, more ...string) []*running {
	t.Helper()
	dir := testenv.QuickDir(t)
	var group []*running
	for _, id := range []string{"a", "b", "c"} {
		args := append([]string{filepath.Join(dir, id), "--id", id, "--addr", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, slices.Concat(steady, more)...)
		if len(group) == 0 {
			seed(t, args[0], id)
		} else {
			args = append(args, "--join", group[0].node.Address())
		}
		group = append(group, start(t, args...))
	}
	waitVoters(t, group[0], 3)
	return group
}

func waitVoters(t testing.TB, r *running, n int) {
	t.Helper()
	testenv.WaitFor(t, fmt.Sprintf("%d voters", n), func() bool { return r.node.Stats().Voters == n })
}

// leader returns the member that leads, and the others.
func leader(t testing.TB, group []*running) (*running, []*running) {
	t.Helper()
	var found *running
	testenv.WaitFor(t, "a leader", func() bool {
		for _, r := range group {
			if r.node.IsLeader() {
				found = r
				return true
			}
		}
		return false
	})
	var others []*running
	for _, r := range group {
		if r != found {
			others = append(others, r)
		}
	}
	return found, others
}

// dial returns a client of a member.
func dial(t testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 3 * time.Minute, DisableIdentity: true}
	for _, change := range change {
		change(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// An authority signs certificates for tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign(t, "ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// file returns the path of a file that sign has written.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// sign makes a certificate for loopback: NAME.crt and NAME.key.
func (a *authority) sign(t testing.TB, name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustNil(t, err)
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.Subject = pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	mustNil(t, err)
	signed, err := x509.ParseCertificate(der)
	mustNil(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	mustNil(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER},
	} {
		mustNil(t, os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600))
	}
	return signed, key
}

// options are those of a member with a certificate of a.
func (a *authority) options(t testing.TB, name string) []string {
	t.Helper()
	a.sign(t, name, &x509.Certificate{})
	return []string{"--tls-cert", a.file(name + ".crt"), "--tls-key", a.file(name + ".key"), "--tls-ca", a.file("ca.crt")}
}
