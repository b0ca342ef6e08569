package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shaledb/shale/remote"
	"github.com/shaledb/shale/remote/s3"
)

// A fake is a server that answers the first request, which is that of New, with an empty list, and all others
// by a function. It keeps the requests.
type fake struct {
	addr string
	mu   sync.Mutex
	seen []*http.Request
	body []byte // of the last request
}

const emptyList = `<ListBucketResult><Name>bucket</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>`

func answering(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, text) }
}

func fakeServer(t *testing.T, answer http.HandlerFunc) *fake {
	t.Helper()
	f := new(fake)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a body that ends early is kept as it is
		f.mu.Lock()
		f.seen, f.body = append(f.seen, r), body
		first := len(f.seen) == 1
		f.mu.Unlock()
		if first {
			_, _ = io.WriteString(w, emptyList)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	f.addr = server.Listener.Addr().String()
	return f
}

// last returns the last request.
func (f *fake) last() *http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[len(f.seen)-1]
}

// count returns how many requests there were.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// fakeBucket returns a bucket on a fake.
func fakeBucket(t *testing.T, answer http.HandlerFunc) (remote.Bucket, *fake) {
	t.Helper()
	f := fakeServer(t, answer)
	return open(t, s3.Config{Endpoint: f.addr, Insecure: true, Region: "here", Bucket: "bucket", Prefix: "p", AccessKey: "k", SecretKey: "s"}), f
}

// TestErrors gives each call each answer that a server may give, and checks what the program is told, and that
// no request is repeated.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status    int
		code      string
		is        error  // what a Put with absent wraps; nil: nothing in particular
		says      string // what the text has
		permanent bool
	}{
		{412, "PreconditionFailed", remote.ErrExists, "object exists", false},
		{409, "ConditionalRequestConflict", nil, "asks to repeat", false},
		{409, "OperationAborted", nil, "asks to repeat", false},
		{400, "BadDigest", remote.ErrChecksum, "wrong checksum", false},
		{400, "XAmzContentChecksumMismatch", remote.ErrChecksum, "wrong checksum", false},
		{400, "IncompleteBody", io.ErrUnexpectedEOF, "IncompleteBody", false},
		{503, "SlowDown", nil, "SlowDown", false},
		{500, "InternalError", nil, "InternalError", false},
		{404, "NoSuchBucket", nil, `there is no bucket "bucket" on`, true},
		{403, "InvalidAccessKeyId", nil, "correct the access key and the secret key", true},
		{403, "SignatureDoesNotMatch", nil, "correct the access key and the secret key", true},
		{400, "ExpiredToken", nil, "get new ones", true},
		{403, "AccessDenied", nil, "rights to get, put and list", true},
		{403, "RequestTimeTooSkewed", nil, "set this machine's clock", true},
		{301, "PermanentRedirect", nil, "is in another region", true},
		{400, "AuthorizationHeaderMalformed", nil, "set the region there (?region=there in the URL)", true},
		{501, "NotImplemented", nil, "name a server that speaks S3", true},
	} {
		b, f := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			region := ""
			if c.code == "AuthorizationHeaderMalformed" {
				region = "<Region>there</Region>"
			}
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said the server</Message>%s</Error>", c.code, region)
			}
		})
		calls := []struct {
			name string
			call func() error
		}{
			{"put", func() error { return remote.PutObject(t.Context(), b, "m/1", []byte("step"), true) }},
			{"read", func() error { _, err := b.ReadAt(t.Context(), "m/1", make([]byte, 4), 0); return err }},
			{"delete", func() error { return b.Delete(t.Context(), "m/1") }},
			{"list", func() (err error) {
				for _, err = range b.List(t.Context(), "m/1", "") {
				}
				return err
			}},
		}
		for i, call := range calls {
			err := call.call()
			var refused *s3.RefusedError
			if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("s3: %s %q: ", call.name, "m/1")) || !strings.Contains(err.Error(), c.says) ||
				errors.As(err, &refused) != c.permanent || c.is != nil && !errors.Is(err, c.is) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %s answers %d %s: %v", call.name, c.says, c.status, c.code, err)
			}
			if got := f.count(); got != i+2 {
				t.Errorf("%s: %d %s: %d requests, want one for each call", call.name, c.status, c.code, got-1)
				break
			}
		}
	}
}

// TestErrors_Absent checks that only the answer that an object is not there is taken for that.
func TestErrors_Absent(t *testing.T) {
	for _, code := range []string{"NoSuchKey", "NotFound", ""} {
		b, _ := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			if code != "" && r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
			}
		})
		_, err := b.Stat(t.Context(), "m/1")
		_, readErr := b.ReadAt(t.Context(), "m/1", make([]byte, 1), 0)
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(readErr, fs.ErrNotExist) || b.Delete(t.Context(), "m/1") != nil {
			t.Errorf("%q: Stat: %v; ReadAt: %v", code, err, readErr)
		}
	}
}

// TestPut_Request checks what a server is told about an object.
func TestPut_Request(t *testing.T) {
	b, f := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("ETag", `"e"`) })
	for _, absent := range []bool{true, false} {
		if err := remote.PutObject(t.Context(), b, "m/1", []byte("123456789"), absent); err != nil {
			t.Fatal(err)
		}
		r := f.last()
		want := map[string]string{
			"X-Amz-Checksum-Crc32c": "4waSgw==", // of the crc32c e3069283
			"X-Amz-Meta-Crc32c":     "e3069283",
			"Content-Md5":           "JfnnlDI7RTiF9RgfG2JNCw==",
			"X-Amz-Content-Sha256":  "UNSIGNED-PAYLOAD",
			"If-None-Match":         "",
			"Content-Length":        "9",
		}
		if absent {
			want["If-None-Match"] = "*"
		}
		r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
		for name, value := range want {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
		if r.Method != http.MethodPut || r.URL.Path != "/bucket/p/m/1" || string(f.body) != "123456789" {
			t.Errorf("%s %s with %q", r.Method, r.URL, f.body)
		}
		for _, name := range []string{"x-amz-checksum-crc32c", "content-md5"} {
			if signed := r.Header.Get("Authorization"); !strings.Contains(signed, name) {
				t.Errorf("the signature does not cover %s: %s", name, signed)
			}
		}
	}
}

// TestPut_BodyIsGivenBack lets a server answer before it has read the body. After Put the body belongs to the
// caller, so nobody may read it any more.
func TestPut_BodyIsGivenBack(t *testing.T) {
	f := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, emptyList)
			return
		}
		w.WriteHeader(http.StatusPreconditionFailed)
	}))
	defer f.Close()
	b := open(t, s3.Config{Endpoint: f.Listener.Addr().String(), Insecure: true, Region: "here", Bucket: "bucket", AccessKey: "k", SecretKey: "s"})
	var late atomic.Int64
	for range 20 {
		body := &watched{data: make([]byte, 8<<20), late: &late}
		err := b.Put(t.Context(), "w/1/0", body, int64(len(body.data)), remote.Checksum(body.data), true)
		body.end()
		if err == nil {
			t.Error("Put succeeded")
		}
	}
	if n := late.Load(); n > 0 {
		t.Errorf("a body was read %d times after Put", n)
	}
}

// A watched body counts the reads after its end.
type watched struct {
	data  []byte
	ended atomic.Bool
	late  *atomic.Int64
}

func (w *watched) end() { w.ended.Store(true) }

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	if w.ended.Load() {
		w.late.Add(1)
	}
	n := copy(p, w.data[off:])
	if w.ended.Load() {
		w.late.Add(1)
	}
	return n, nil
}

// TestPut_TooLarge refuses an object that no PUT can make, but not before it is there.
func TestPut_TooLarge(t *testing.T) {
	b, f := fakeBucket(t, answering(""))
	err := b.Put(t.Context(), "t/00/0000000000000000.sst", endless{}, 5<<30+1, 0, true)
	if err == nil || !strings.Contains(err.Error(), "at most 5368709120 (5 GiB) can be put") || f.count() != 1 {
		t.Errorf("%v after %d requests", err, f.count())
	}
}

type endless struct{}

func (endless) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// TestReadAt_Answers checks that an answer that does not fit to the question is never taken for the object.
func TestReadAt_Answers(t *testing.T) {
	const object = "0123456789"
	for name, c := range map[string]struct {
		rng, body string
		length    string // Content-Length, if it is not that of body
		off       int64
		n         int // bytes asked for
		want      string
		err       error // io.EOF itself, or wrapped
	}{
		"whole":                        {"bytes 0-9/10", object, "", 0, 10, object, nil},
		"middle":                       {"bytes 3-5/10", object[3:6], "", 3, 3, "345", nil},
		"end":                          {"bytes 8-9/10", object[8:], "", 8, 5, "89", io.EOF},
		"suffix":                       {"bytes 7-9/10", object[7:], "", -1, 3, "789", nil},
		"suffix beyond":                {"bytes 0-9/10", object, "", -1, 12, object, io.EOF},
		"without a range, from 0":      {"", object, "", 0, 10, object, nil},
		"without a range, from 0, end": {"", object, "", 0, 20, object, io.EOF},
		"cut":                          {"bytes 0-9/10", object[:4], "10", 0, 10, "0123", io.ErrUnexpectedEOF},
		"less than its range":          {"bytes 0-9/10", object[:4], "", 0, 10, "0123", io.ErrUnexpectedEOF},
		"ranges ignored":               {"", object, "", 3, 3, "", errNotEOF},
		"suffixes ignored":             {"", object, "", -1, 3, "", errNotEOF},
		"another range":                {"bytes 0-2/10", object[:3], "", 3, 3, "", errNotEOF},
		"a shorter range":              {"bytes 3-4/10", object[3:5], "", 3, 3, "", errNotEOF},
		"nonsense":                     {"bytes 5-3/10", object[:3], "", 3, 3, "", errNotEOF},
		"beyond the size":              {"bytes 3-12/10", object[:3], "", 3, 10, "", errNotEOF},
	} {
		b, _ := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
			if c.length != "" {
				w.Header().Set("Content-Length", c.length)
			}
			if c.rng != "" {
				w.Header().Set("Content-Range", c.rng)
				w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = io.WriteString(w, c.body)
		})
		p := bytes.Repeat([]byte{'-'}, c.n)
		n, err := b.ReadAt(t.Context(), "object", p, c.off)
		good := err == c.err || c.err == io.ErrUnexpectedEOF && errors.Is(err, c.err) || c.err == errNotEOF && err != nil && err != io.EOF
		if string(p[:n]) != c.want || !good {
			t.Errorf("%s: %q, %v; want %q, %v", name, p[:n], err, c.want, c.err)
		}
	}
}

// TestReadAt_EndRefused has a server that refuses to give more bytes from the end than there are, as gofakes3 1.2.0 does,
// and S3 does not. The object must not be taken for an empty one.
func TestReadAt_EndRefused(t *testing.T) {
	for _, object := range []string{"0123456789", ""} {
		b, f := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
			if object == "" || strings.HasPrefix(r.Header.Get("Range"), "bytes=-") {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				_, _ = io.WriteString(w, "<Error><Code>InvalidRange</Code></Error>")
				return
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(object)-1, len(object)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, object)
		})
		p := make([]byte, 12)
		if n, err := b.ReadAt(t.Context(), "object", p, -1); string(p[:n]) != object || err != io.EOF || f.count() != 3 {
			t.Errorf("%q: %q, %v after %d requests", object, p[:n], err, f.count()-1)
		}
		if object == "" {
			continue
		}
		// The object has grown between the two requests, or the server errs: its beginning is not its end.
		if n, err := b.ReadAt(t.Context(), "object", p[:len(object)], -1); n > 0 || err == nil || err == io.EOF {
			t.Errorf("a refused end: %q, %v", p[:n], err)
		}
	}
}

var errNotEOF = errors.New("an error that is not the end of the object")

// TestList_OtherPrefix has a server that takes several slashes for one, as SeaweedFS does and S3 does not. Objects that do not
// have the prefix are none of the list.
func TestList_OtherPrefix(t *testing.T) {
	b, _ := fakeBucket(t, answering("<ListBucketResult><Contents><Key>p/b/c</Key></Contents><Contents><Key>p/b0</Key></Contents></ListBucketResult>"))
	for prefix, want := range map[string]string{"": "b/c b0 ", "b": "b/c b0 ", "b/": "b/c ", "b//": "", "/": ""} {
		got := ""
		for info, err := range b.List(t.Context(), prefix, "") {
			if err != nil {
				t.Fatal(err)
			}
			got += info.Name + " "
		}
		if got != want {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
}

// TestStat_Checksums takes the checksum from where a server has it.
func TestStat_Checksums(t *testing.T) {
	for name, c := range map[string]struct {
		header, metadata string
		want             uint32
		fails            bool
	}{
		"checked":              {"4waSgw==", "00000000", 0xe3069283, false},
		"in the metadata":      {"", "e3069283", 0xe3069283, false},
		"of parts":             {"4waSgw==-2", "e3069283", 0xe3069283, false},
		"nowhere":              {"", "", 0, true},
		"nonsense":             {"AA==", "e30692", 0, true},
		"nonsense in metadata": {"", "e306928g", 0, true},
	} {
		b, f := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
			w.Header().Set("Content-Length", "9")
			if c.header != "" {
				w.Header().Set("x-amz-checksum-crc32c", c.header)
			}
			if c.metadata != "" {
				w.Header().Set("x-amz-meta-crc32c", c.metadata)
			}
		})
		info, err := b.Stat(t.Context(), "object")
		if (err != nil) != c.fails || err == nil && info != (remote.Info{Name: "object", Size: 9, CRC32C: c.want}) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		if r := f.last(); r.Header.Get("x-amz-checksum-mode") != "ENABLED" {
			t.Errorf("%s: the server is not asked for checksums", name)
		}
	}
}

// TestCancel ends a call while the server thinks.
func TestCancel(t *testing.T) {
	begun, done := make(chan struct{}, 10), make(chan struct{})
	b, _ := fakeBucket(t, func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-done
	})
	defer close(done)
	for name, call := range map[string]func(ctx context.Context) error{
		"put":    func(ctx context.Context) error { return remote.PutObject(ctx, b, "m/1", []byte("x"), true) },
		"read":   func(ctx context.Context) error { _, err := b.ReadAt(ctx, "m/1", make([]byte, 1), 0); return err },
		"stat":   func(ctx context.Context) error { _, err := b.Stat(ctx, "m/1"); return err },
		"delete": func(ctx context.Context) error { return b.Delete(ctx, "m/1") },
		"list": func(ctx context.Context) (err error) {
			for _, err = range b.List(ctx, "", "") {
			}
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

// TestCredentials_Renewed has a server that takes no more what it took, and a file into which somebody writes other
// credentials. The next call has them.
func TestCredentials_Renewed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(key string) {
		if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = s\naws_session_token = t\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_PROFILE", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	f := fakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=old/") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<Error><Code>ExpiredToken</Code></Error>")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	b := open(t, s3.Config{Endpoint: f.addr, Insecure: true, Region: "here", Bucket: "bucket"})
	if err := b.Delete(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "the credentials have expired") {
		t.Errorf("with old credentials: %v", err)
	}
	write("new")
	if err := b.Delete(t.Context(), "a"); err != nil {
		t.Errorf("with new ones in the file: %v", err)
	}
}
