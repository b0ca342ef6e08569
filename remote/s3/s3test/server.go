// Package s3test starts S3 servers, each as processes on the loopback interface that keep their objects in a temporary
// directory. It is for tests and measurements only.
//
//   - Start starts versitygw, the server of most tests.
//   - Each runs a test on one of each kind: what a store needs of S3 must not only be what one program does.
package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/shaledb/shale/remote/s3"
)

// The credentials of every server.
const (
	AccessKey = "shale-test"
	SecretKey = "not a secret at all"
	region    = "us-east-1"
)

// A Server is a running S3 server.
// Each test has its own, with a port and a directory that no other test knows.
type Server struct {
	Kind string // "versitygw", "seaweedfs" or "gofakes3"
	Addr string // "127.0.0.1:PORT"
	Dir  string // where it keeps its buckets
	logs *bytes.Buffer
}

// Start starts versitygw, which ends with the test. It skips the test if the server can't be built, as
// without a network, or if its directory has no room for extended attributes. The first call on a machine
// builds the server, which takes a minute or two.
func Start(t testing.TB) *Server {
	t.Helper()
	return start(t, versitygw)
}

// Each runs a test on a server of each kind, as a subtest with the name of the kind. All but versitygw are skipped, because
// one takes many minutes to build and some minutes for its tests, unless SHALE_S3_SERVERS is set. Then none may be missing.
func Each(t *testing.T, test func(t *testing.T, s *Server)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			if k != versitygw && !needed() {
				t.Skipf("make s3-servers builds %s, and runs this", k.name)
			}
			test(t, start(t, k))
		})
	}
}

// start starts a server, which ends with the test.
func start(t testing.TB, k *kind) *Server {
	t.Helper()
	s, stop, err := k.run(t.TempDir())
	if err != nil && needed() {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("no S3 server for this test: %v", err)
	}
	t.Cleanup(stop)
	return s
}

// needed reports whether a test must not be skipped for want of a server.
func needed() bool { return os.Getenv("SHALE_S3_SERVERS") != "" }

// Run starts versitygw, which keeps its buckets in dir, for programs that are no tests. It ends with stop.
func Run(dir string) (s *Server, stop func(), err error) { return versitygw.run(dir) }

// run builds a server if need be, and starts it.
func (k *kind) run(dir string) (s *Server, stop func(), err error) {
	program, err := k.build()
	if err != nil {
		return nil, nil, err
	}
	for range 6 { // another process may take a port before the server does
		addrs, err := freeAddrs(k.ports)
		if err != nil {
			return nil, nil, err
		}
		s = &Server{Kind: k.name, Addr: addrs[0], Dir: dir, logs: new(bytes.Buffer)}
		cmd, clean, err := k.command(program, dir, addrs)
		if err != nil {
			return nil, nil, err
		}
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.logs, s.logs, endWithParent()
		if err := cmd.Start(); err != nil {
			return nil, nil, err
		}
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it is killed
			close(done)
		}()
		stop = func() {
			_ = cmd.Process.Kill() // it may have ended
			<-done
			clean()
		}
		if s.ready(done) {
			return s, stop, nil
		}
		stop()
	}
	return nil, nil, fmt.Errorf("the S3 server does not start: %s", s.logs)
}

// ready waits until the server keeps an object. It returns false if the server ends before, or takes half a minute.
func (s *Server) ready(done chan struct{}) bool {
	for range 300 {
		if s.tryOut() == nil {
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

// tryOut makes a bucket and an object: a server may accept connections before it can do that.
func (s *Server) tryOut() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return err
	}
	const name = "ready"
	_ = client.MakeBucket(ctx, name, minio.MakeBucketOptions{}) // it may be there; without it there is no object either
	_, err = client.PutObject(ctx, name, name, strings.NewReader(name), int64(len(name)), minio.PutObjectOptions{})
	return err
}

// freeAddrs returns n addresses of the loopback interface that nobody uses now.
// Another process may take a port before the server does, so run tries again.
func freeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // it has accepted nothing, and is open until all have their ports
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// Make makes a bucket of the server, and returns how to reach it.
func (s *Server) Make(t testing.TB, bucket string) s3.Config {
	t.Helper()
	c, err := s.MakeBucket(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// MakeBucket is Make for programs that are no tests.
func (s *Server) MakeBucket(ctx context.Context, bucket string) (s3.Config, error) {
	client, err := s.client()
	if err == nil {
		err = client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		return s3.Config{}, fmt.Errorf("make the bucket %s: %w", bucket, err)
	}
	return s3.Config{Endpoint: s.Addr, Insecure: true, Region: region, Bucket: bucket, AccessKey: AccessKey, SecretKey: SecretKey}, nil
}

// client returns a client that repeats nothing.
func (s *Server) client() (*minio.Client, error) {
	return minio.New(s.Addr, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: region, MaxRetries: 1})
}
