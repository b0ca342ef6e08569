// Package s3test starts an S3 server for tests: versitygw, as a process on the loopback interface that keeps
// its objects in a temporary directory. It is for tests only.
package s3test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/shaledb/shale/remote/s3"
)

// version is that of the server.
const version = "v1.8.0"

// The credentials of every server.
const (
	AccessKey = "shale-test"
	SecretKey = "not a secret at all"
	region    = "us-east-1"
)

// A Server is a running S3 server.
// Each test has its own, with a port and a directory that no other test knows.
type Server struct {
	Addr string // "127.0.0.1:PORT"
	Dir  string // where it keeps its buckets
	logs *bytes.Buffer
}

// Start starts a server, which ends with the test. It skips the test if the server can't be built, as
// without a network, or if its directory has no room for extended attributes. The first call on a machine
// builds the server, which takes a minute or two.
func Start(t testing.TB) *Server {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Skipf("no S3 server for this test: %v", err)
	}
	s := &Server{Dir: t.TempDir(), logs: new(bytes.Buffer)}
	var done chan struct{}
	for try := 0; ; try++ { // another process may take the port before the server does
		if s.Addr, err = freeAddr(); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "--access", AccessKey, "--secret", SecretKey, "--region", region, "--port", s.Addr, "--quiet", "posix", s.Dir)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.logs, s.logs, endWithParent()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done = make(chan struct{})
		go func() {
			_ = cmd.Wait() // it is killed
			close(done)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			<-done
		})
		if s.answers(done) {
			return s
		}
		if try == 5 {
			_ = cmd.Process.Kill() // the same
			<-done
			t.Skipf("the S3 server does not start: %s", s.logs)
		}
	}
}

// answers waits until the server accepts connections. It returns false if the server ends before.
func (s *Server) answers(done chan struct{}) bool {
	for range 500 {
		// A server that has the port accepts within milliseconds. Ten seconds, 500 waits of 20 ms,
		// are for machines under load.
		if c, err := net.DialTimeout("tcp", s.Addr, time.Second); err == nil {
			_ = c.Close() // nothing was sent
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// freeAddr returns an address of the loopback interface that nobody uses now.
// Another process may take the port before the server does, so Start tries again.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close() // it has accepted nothing
	return l.Addr().String(), nil
}

// Make makes a bucket of the server, and returns how to reach it.
func (s *Server) Make(t testing.TB, bucket string) s3.Config {
	t.Helper()
	client, err := minio.New(s.Addr, &minio.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: region})
	if err == nil {
		err = client.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{})
	}
	if err != nil {
		t.Fatalf("make the bucket %s: %v", bucket, err)
	}
	return s3.Config{Endpoint: s.Addr, Insecure: true, Region: region, Bucket: bucket, AccessKey: AccessKey, SecretKey: SecretKey}
}

// build returns the path of the server's program. It builds it unless that was done before.
var build = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "shale-test")
	// The name has the versions of the server and of Go, so a change of either builds another
	// program.
	program := filepath.Join(dir, fmt.Sprintf("versitygw-%s-%s", version, runtime.Version()))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Another process may do the same, so the program gets its name when it is whole.
	into, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(into) // what is left of it is of no use
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/versity/versitygw/cmd/versitygw@"+version)
	cmd.Dir, cmd.Env = into, append(os.Environ(), "GOBIN="+into, "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build versitygw %s: %w: %.500s", version, err, out)
	}
	return program, os.Rename(filepath.Join(into, "versitygw"), program)
})
