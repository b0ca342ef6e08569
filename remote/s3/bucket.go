package s3

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/shaledb/shale/remote"
)

// The calls of a bucket, each as one request of S3 (List as one for each page). What a server
// answers is compared with what was asked for, wherever servers are known to differ.

// maxObject is the largest object in bytes that one PUT can make. All servers have this limit.
const maxObject = 5 << 30

// Headers of objects, and metadata.
const (
	checksumHeader = "x-amz-checksum-crc32c" // base64 of four bytes, the highest first
	metadataSum    = "Crc32c"                // x-amz-meta-crc32c: eight hexadecimal digits
)

// A bucket is a remote.Bucket on a server.
type bucket struct {
	c      Config
	core   *minio.Core
	keys   *credentials.Credentials
	prefix string // of all keys: empty, or ends with a slash
}

// New returns the bucket that c names. It makes one request, a list of at most one object, so that wrong
// credentials, a missing bucket or a wrong region are found here. remote.Probe finds out more.
func New(ctx context.Context, c Config) (remote.Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a server may hang
	defer cancel()
	core, keys, err := c.client()
	if err != nil {
		return nil, fmt.Errorf("s3: bucket %s: %w", c, err)
	}
	b := &bucket{c: c, core: core, keys: keys}
	if c.Prefix != "" {
		b.prefix = c.Prefix + "/"
	}
	// A list is the cheapest call that needs the name, the region, the credentials and the clock to
	// be right, and that leaves nothing behind.
	for o := range core.ListObjectsIter(ctx, c.Bucket, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true, MaxKeys: 1}) {
		if o.Err != nil {
			return nil, fmt.Errorf("s3: bucket %s: %w", c, b.away(b.translate(b.contextError(ctx, o.Err))))
		}
		break
	}
	if err := ctx.Err(); err != nil { // the list is empty then, and not an error
		return nil, fmt.Errorf("s3: bucket %s: %w", c, err)
	}
	return b, nil
}

// begin returns the error with which a call ends before it does anything, or nil. A name that no object can have is a mistake
// of the program, so it is not tried again.
func begin(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := remote.CheckName(name); err != nil {
		return &RefusedError{err}
	}
	return nil
}

// Put makes one request. The crc32c goes into a header that the server checks, and into the metadata for servers that forget
// it; the MD5 is for servers that check only that. minio-go sends a body twice only if it can be rewound, which a loan can't.
func (b *bucket) Put(ctx context.Context, name string, body io.ReaderAt, size int64, crc32c uint32, absent bool) (err error) {
	defer b.explain(ctx, "put", name, &err)
	if err := begin(ctx, name); err != nil {
		return err
	}
	switch {
	case size < 0:
		return &RefusedError{fmt.Errorf("size %d", size)}
	case size > maxObject:
		return tooLarge(body, size)
	}
	// The MD5 goes ahead of the body in a header, so the body is read twice: here, and for the
	// request.
	sum, err := sumMD5(ctx, body, size)
	if err != nil {
		return err
	}
	o := minio.PutObjectOptions{
		UserMetadata: map[string]string{
			checksumHeader: base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32c)),
			metadataSum:    fmt.Sprintf("%08x", crc32c),
		},
		// Without this, plain HTTP would have the body in chunks, each with a signature, which not all
		// servers understand. The two checksums are part of the signature.
		DisableContentSha256: true,
	}
	if absent {
		o.SetMatchETagExcept("*")
	}
	lent := &loan{r: &contextReader{ctx, io.NewSectionReader(body, 0, size)}}
	// Put promises not to use the body after it has returned, and the transport may go on for a
	// while.
	defer lent.detach()
	_, err = b.core.PutObject(ctx, b.c.Bucket, b.prefix+name, lent, size, sum, "", o)
	return err
}

// ReadAt makes one request for a range. It returns io.EOF itself only if the object ends: an answer that ends early is an
// error that passes. What range the answer has is compared with what was asked for, because some servers ignore ranges.
func (b *bucket) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	defer func() {
		if err != io.EOF {
			b.explain(ctx, "read", name, &err)
		}
	}()
	if err := begin(ctx, name); err != nil {
		return 0, err
	}
	n, err = b.readRange(ctx, name, p, off)
	if err == errNoRange && off < 0 {
		// An object that is shorter has no such end for some servers, and all of it for S3. An empty one has none for any.
		if n, err = b.readRange(ctx, name, p, 0); err == nil {
			return 0, fmt.Errorf("the server has refused the last %d bytes, and gives as many from the beginning", len(p))
		}
	}
	if err == errNoRange {
		err = io.EOF // the object has no bytes there
	}
	return n, err
}

// errNoRange is what readRange returns if the server says that the object has no byte of the range.
var errNoRange = errors.New("no such range")

// readRange makes the request of ReadAt.
func (b *bucket) readRange(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	remote.Progress(ctx)
	var o minio.GetObjectOptions
	if off < 0 {
		o.Set("Range", fmt.Sprintf("bytes=-%d", len(p)))
	} else {
		o.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
	}
	body, info, header, err := b.core.GetObject(ctx, b.c.Bucket, b.prefix+name, o)
	if answer := (minio.ErrorResponse{}); errors.As(err, &answer) && answer.Code == minio.InvalidRange {
		return 0, errNoRange
	}
	if err != nil {
		return 0, err
	}
	defer body.Close() // only read
	part, err := parsePart(header.Get("Content-Range"), info.Size)
	if err == nil {
		err = part.fits(off, len(p))
	}
	if err != nil {
		return 0, err
	}
	// The body has as many bytes as the range says. An answer that breaks off is then an error, and
	// never the end of the object.
	want := int(part.end - part.from)
	n, err = io.ReadFull(&contextReader{ctx, body}, p[:want])
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return n, fmt.Errorf("the answer ends after %d of %d bytes: %w", n, want, io.ErrUnexpectedEOF)
	case err == nil && want < len(p):
		return n, io.EOF
	}
	return n, err
}

// A part is the range of an object's bytes that an answer has, and the object's size.
type part struct {
	from, end, size int64
}

// parsePart reads the header Content-Range of an answer. If there is none, the answer is the whole object,
// which has length bytes.
//
// The header is "bytes FIRST-LAST/SIZE", and the byte at LAST belongs to the range.
func parsePart(text string, length int64) (p part, err error) {
	if text == "" {
		return part{0, length, length}, nil
	}
	var last int64
	if n, err := fmt.Sscanf(text, "bytes %d-%d/%d", &p.from, &last, &p.size); n < 3 || err != nil || p.from < 0 || last < p.from || last >= p.size {
		return p, fmt.Errorf("the answer has the range %q, which can't be", text)
	}
	p.end = last + 1
	return p, nil
}

// fits returns an error if p is not what ReadAt asks for: n bytes from offset off, or the last n.
func (p part) fits(off int64, n int) error {
	if off < 0 {
		off = max(0, p.size-int64(n))
	}
	if p.from != off || p.end != min(p.size, off+int64(n)) {
		return fmt.Errorf("the answer has bytes %d to %d of %d, and not the %d from %d: the server does not understand ranges", p.from, p.end, p.size, n, off)
	}
	return nil
}

// Stat makes one HEAD. An object of another program has no crc32c, which is an error: it is none of a store.
func (b *bucket) Stat(ctx context.Context, name string) (_ remote.Info, err error) {
	defer b.explain(ctx, "stat", name, &err)
	if err := begin(ctx, name); err != nil {
		return remote.Info{}, err
	}
	o, err := b.core.StatObject(ctx, b.c.Bucket, b.prefix+name, minio.StatObjectOptions{Checksum: true})
	if err != nil {
		return remote.Info{}, err
	}
	sum, err := checksumOf(&o)
	if err != nil {
		return remote.Info{}, err
	}
	return remote.Info{Name: name, Size: o.Size, CRC32C: sum}, nil
}

// checksumOf returns the crc32c of an object: the one that the server has checked, or else the one that Put
// has written into the metadata.
func checksumOf(o *minio.ObjectInfo) (uint32, error) {
	// The header counts first, because the server has compared it with the bytes. What stands in
	// the metadata is only what Put has stated.
	if b, err := base64.StdEncoding.DecodeString(o.ChecksumCRC32C); err == nil && len(b) == 4 {
		return binary.BigEndian.Uint32(b), nil
	}
	for key, text := range o.UserMetadata {
		if sum, err := strconv.ParseUint(text, 16, 32); strings.EqualFold(key, metadataSum) && err == nil && len(text) == 8 {
			return uint32(sum), nil
		}
	}
	return 0, errors.New("it has no crc32c: another program has written it")
}

// List makes a request for each 1,000 objects, while the caller goes through them.
func (b *bucket) List(ctx context.Context, prefix, after string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		err := b.list(ctx, prefix, after, yield)
		if b.explain(ctx, "list", prefix, &err); err != nil {
			yield(remote.Info{}, err)
		}
	}
}

// list calls yield for the objects of a list, until yield returns false.
// Objects of others below the prefix, whose names no object of a bucket can have, are left out.
func (b *bucket) list(ctx context.Context, prefix, after string, yield func(remote.Info, error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if validPart(prefix) < len(prefix) {
		return nil // no object's name has such bytes
	}
	o := minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}
	// Servers get only what may stand in a name. Names up to after that follow it are left out below.
	// What is cut off makes the list begin earlier, and never later, than the caller has asked for.
	if start := after[:validPart(after)]; start != "" {
		o.StartAfter = b.prefix + start
	}
	for object := range b.core.ListObjectsIter(ctx, b.c.Bucket, o) {
		if object.Err != nil {
			return object.Err
		}
		name, ours := strings.CutPrefix(object.Key, b.prefix)
		// SeaweedFS takes several slashes for one, so it lists "b/c" for the prefix "b//".
		if !ours || !strings.HasPrefix(name, prefix) || name <= after || remote.CheckName(name) != nil {
			continue
		}
		if !yield(remote.Info{Name: name, Size: object.Size}, nil) {
			return nil
		}
	}
	return ctx.Err() // a list that ctx has ended has no error of its own
}

// validPart returns how many bytes at the beginning of s may stand in a name.
func validPart(s string) int {
	for i, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' || c == '/') {
			return i
		}
	}
	return len(s)
}

// Delete makes one request. Servers differ in what they answer for an object that is not there; both answers are fine.
func (b *bucket) Delete(ctx context.Context, name string) error {
	err := begin(ctx, name)
	if err == nil {
		err = b.core.RemoveObject(ctx, b.c.Bucket, b.prefix+name, minio.RemoveObjectOptions{})
	}
	if b.explain(ctx, "delete", name, &err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
