package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"

	"github.com/minio/minio-go/v7"

	"github.com/shaledb/shale/remote"
)

// What the errors of a server mean: which ones end a call for good and what to change then, and
// which ones package remote may answer with a repetition.

// A RefusedError is an error that comes again until somebody changes something: a key, a name, a right, a clock,
// or a body that can't be read. Its text says what to change. To repeat the call is of no use.
type RefusedError struct {
	Err error
}

// Error returns the text of the cause.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Permanent returns true. Package remote does not repeat calls with such an error.
func (e *RefusedError) Permanent() bool { return true }

// errBusy is wrapped by the error of a call that the server wants to see again, because another one with this
// name was under way. It is not the answer that the name is taken.
var errBusy = errors.New("the server is busy with another call for this object and asks to repeat this one")

// explain translates the error of a call, and adds the call and the object to it. nil stays nil.
func (b *bucket) explain(ctx context.Context, call, name string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("s3: %s %q: %w", call, name, b.translate(b.contextError(ctx, *err)))
	}
}

// translate returns an error of minio-go in the words of package remote, or with advice. What it does not know stays an error
// that may pass: to repeat a call that fails for good costs half a minute, to give up one that would pass stops a backup.
func (b *bucket) translate(err error) error {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		if b.c.Insecure || !errors.Is(err, http.ErrSchemeMismatch) {
			return err
		}
		return &RefusedError{fmt.Errorf("%s speaks plain HTTP and not TLS: write s3+http:// instead of s3://, or set Insecure: %w", b.c.Endpoint, err)}
	}
	said := fmt.Errorf("the server says %s: %s", answer.Code, answer.Error())
	if advice := b.advice(&answer); advice != "" {
		return &RefusedError{fmt.Errorf("%s: %w", advice, said)}
	}
	switch answer.Code {
	case "BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "ContentChecksumMismatch":
		return fmt.Errorf("%w: %w", remote.ErrChecksum, said)
	case "IncompleteBody":
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, said)
	}
	switch answer.StatusCode {
	case http.StatusNotFound:
		// A bucket that is missing has this status too. A HEAD has no body, and so its answer has
		// no code.
		if answer.Code == minio.NoSuchKey || answer.Code == "NotFound" || answer.Code == "" {
			return fs.ErrNotExist
		}
	case http.StatusPreconditionFailed:
		return remote.ErrExists
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", errBusy, said)
	}
	return said
}

// away adds advice to the error of a first call that no server has answered.
func (b *bucket) away(err error) error {
	if no := (*net.OpError)(nil); errors.As(err, &no) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not answer: look at its name, and whether it runs: %w", b.c.Endpoint, err)
	}
	return err
}

// advice returns what has to be changed before the server gives another answer, or "" if it may give one by
// itself.
func (b *bucket) advice(answer *minio.ErrorResponse) string {
	switch answer.Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId", "XAdminUserNotFound", "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		b.keys.Expire() // somebody may have renewed them: the next call looks
	}
	switch answer.Code {
	case minio.NoSuchBucket:
		return fmt.Sprintf("there is no bucket %q on %s: make it, or correct its name", b.c.Bucket, b.c.Endpoint)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidClientTokenId", "XAdminUserNotFound":
		return "the credentials are wrong: correct the access key and the secret key (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials)"
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return "the credentials have expired: get new ones"
	case minio.AccessDenied, "AllAccessDisabled", "AccountProblem":
		return fmt.Sprintf("access is denied: these credentials need the rights to get, put and list objects of bucket %q, and to delete them unless another process collects; the bucket's policy must not forbid it", b.c.Bucket)
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clock of this machine and that of the server differ too much: set this machine's clock"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", minio.InvalidRegion, "IllegalLocationConstraintException":
		if answer.Region != "" {
			return fmt.Sprintf("bucket %q is in another region: set the region %s (?region=%s in the URL)", b.c.Bucket, answer.Region, answer.Region)
		}
		return fmt.Sprintf("bucket %q is in another region than %q: set its region (?region=REGION in the URL), or name the endpoint of its region", b.c.Bucket, b.c.Region)
	case "MethodNotAllowed", minio.NotImplemented, minio.APINotSupported:
		return fmt.Sprintf("%s does not support this call: name a server that speaks S3", b.c.Endpoint)
	case "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull":
		return "" // somebody may make room meanwhile
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return "the server wants other credentials: correct the access key and the secret key"
	}
	return ""
}

// contextError returns the error of ctx if err came because ctx ended, which minio-go does not always wrap. The server
// may not have answered, and what hangs may be the way to it: the next call takes none of the connections that are there.
func (b *bucket) contextError(ctx context.Context, err error) error {
	// A caller must see by errors.Is that its own context has ended the call, and not the server.
	cause := ctx.Err()
	if err == nil || cause == nil {
		return err
	}
	// A connection over a way that is gone hangs again and again, while a new one may find another
	// way.
	if t, ok := b.c.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
