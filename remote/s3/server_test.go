package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/buckettest"
	"github.com/shaledb/shale/remote/s3"
	"github.com/shaledb/shale/remote/s3/s3test"
)

// open returns the bucket that c names.
func open(t *testing.T, c s3.Config) remote.Bucket {
	t.Helper()
	b, err := s3.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestServer_Suite checks that a bucket on a real server does all that remote.Bucket says. Each test of the
// suite has a prefix of its own, every second one a bucket without a prefix.
func TestServer_Suite(t *testing.T) { s3test.Each(t, testSuite) }

func testSuite(t *testing.T, server *s3test.Server) {
	shared := server.Make(t, "shared")
	var n atomic.Int64
	buckettest.Run(t, func(t *testing.T) remote.Bucket {
		i := n.Add(1)
		c := shared
		if i%2 == 0 {
			c = server.Make(t, fmt.Sprintf("alone-%d", i))
		} else {
			c.Prefix = fmt.Sprintf("stores/%d", i)
		}
		return opened(t, server, c)
	})
}

// opened returns a bucket, as a store could use it: what the server does not do is done here.
func opened(t *testing.T, server *s3test.Server, c s3.Config) remote.Bucket {
	t.Helper()
	switch b := open(t, c); server.Kind {
	case "versitygw":
		return &twice{b}
	case "gofakes3":
		return &checking{b}
	default:
		return b
	}
}

// checking refuses what gofakes3 accepts: bytes that do not have the crc32c that is stated for them.
type checking struct{ remote.Bucket }

func (b *checking) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	if data, err := io.ReadAll(io.NewSectionReader(body, 0, min(size, 16<<20))); err == nil && int64(len(data)) == size && remote.Checksum(data) != crc32c {
		return remote.ErrChecksum
	}
	return b.Bucket.Put(ctx, name, body, size, crc32c, absent)
}

// TestServer_Probe checks that Probe lets those servers through on which a store can rely.
func TestServer_Probe(t *testing.T) {
	s3test.Each(t, func(t *testing.T, server *s3test.Server) {
		var want error
		if server.Kind == "gofakes3" {
			want = remote.ErrIgnoresChecksums
		}
		if err := remote.Probe(t.Context(), open(t, server.Make(t, "probed"))); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	})
}

// twice repeats a Put that versitygw refuses because of its folders: it keeps objects as files, and if the
// last object of a folder is deleted while another one is put there, it may take the path of the new one
// for a folder. It has done nothing then.
type twice struct{ remote.Bucket }

func (b *twice) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) error {
	for {
		err := b.Bucket.Put(ctx, name, body, size, crc32c, absent)
		if err == nil || !strings.Contains(err.Error(), "ExistingObjectIsDirectory") || !strings.HasPrefix(name, "w/1/") {
			return err
		}
	}
}

// TestServer_PrefixesAreApart checks that two stores of one bucket do not see each other, even if the name
// of one begins with that of the other.
func TestServer_PrefixesAreApart(t *testing.T) { s3test.Each(t, testPrefixes) }

func testPrefixes(t *testing.T, server *s3test.Server) {
	c := server.Make(t, "shared")
	var buckets []remote.Bucket
	for _, prefix := range []string{"hosts", "hosts-2", "hosts/old", ""} {
		c.Prefix = prefix
		buckets = append(buckets, open(t, c))
	}
	for i, b := range buckets[:3] {
		if err := remote.PutObject(t.Context(), b, "m/1", []byte{byte(i)}, true); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"m/1 old/m/1", "m/1", "m/1", "hosts-2/m/1 hosts/m/1 hosts/old/m/1"} {
		var names []string
		for info, err := range buckets[i].List(t.Context(), "", "") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, info.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("bucket %d has %q, want %q", i, got, want)
		}
	}
	if got, err := remote.ReadObject(t.Context(), buckets[1], "m/1", 9); err != nil || !bytes.Equal(got, []byte{1}) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestServer_WrongConfigs checks that an error says what to change, and comes before anything is written.
func TestServer_WrongConfigs(t *testing.T) { s3test.Each(t, testWrongConfigs) }

func testWrongConfigs(t *testing.T, server *s3test.Server) {
	right := server.Make(t, "right")
	for name, c := range map[string]struct {
		change func(c *s3.Config)
		want   string
	}{
		"bucket":     {func(c *s3.Config) { c.Bucket = "wrong" }, `there is no bucket "wrong" on ` + server.Addr},
		"secret key": {func(c *s3.Config) { c.SecretKey = "wrong" }, "the credentials are wrong: correct the access key and the secret key"},
		"access key": {func(c *s3.Config) { c.AccessKey = "wrong" }, "the credentials are wrong: correct the access key and the secret key"},
		"region":     {func(c *s3.Config) { c.Region = "eu-west-7" }, "in another region"},
		"TLS":        {func(c *s3.Config) { c.Insecure = false }, "speaks plain HTTP and not TLS"},
	} {
		switch {
		case server.Kind == "gofakes3" && strings.HasSuffix(name, " key"):
			continue // it lets everybody do everything
		case server.Kind != "versitygw" && name == "region":
			continue // S3 refuses a signature for another region
		}
		wrong := right
		c.change(&wrong)
		_, err := s3.New(t.Context(), wrong)
		var refused *s3.RefusedError
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &refused) || !refused.Permanent() {
			t.Errorf("wrong %s: %v, want %q", name, err, c.want)
		}
		if errors.Is(err, fs.ErrNotExist) {
			t.Errorf("wrong %s: %v could be taken for a missing object", name, err)
		}
	}
	// Nobody is there.
	away := right
	away.Endpoint = "127.0.0.1:1"
	if _, err := s3.New(t.Context(), away); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1 does not answer: look at its name") {
		t.Errorf("no server: %v", err)
	}
	// The region may be left to the server.
	right.Region = ""
	open(t, right)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s3.New(done, right); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestServer_GoneBucket deletes a bucket behind the back of a program. What needs a list must not take that
// for an empty bucket.
func TestServer_GoneBucket(t *testing.T) { s3test.Each(t, testGoneBucket) }

func testGoneBucket(t *testing.T, server *s3test.Server) {
	c := server.Make(t, "gone")
	b := open(t, c)
	removeBucket(t, c)
	refused := func(what string, err error) {
		t.Helper()
		if r := new(*s3.RefusedError); !errors.As(err, r) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "there is no bucket") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("Put", remote.PutObject(t.Context(), b, "id", nil, true))
	_, err := b.ReadAt(t.Context(), "id", make([]byte, 1), 0)
	refused("ReadAt", err)
	err = nil
	for _, e := range b.List(t.Context(), "", "") {
		err = e
	}
	refused("List", err)
}
