package s3

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/shaledb/shale/remote"
)

// Where a bucket is, and with which keys and connections it is asked.

// A Config says where a bucket is and who asks for it. [ParseURL] makes one of a URL.
type Config struct {
	// Endpoint is the server: a host, which may have a port, such as "s3.eu-central-1.amazonaws.com" or
	// "localhost:7070".
	Endpoint string

	// Insecure uses plain HTTP instead of TLS. Everybody on the way can then read the objects and their
	// names, but not the secret key.
	Insecure bool

	// Region is that of the bucket. If it is empty, it is taken from an endpoint of Amazon, and any other
	// server is asked for it once.
	Region string

	// Bucket is the bucket's name on the server. It must exist.
	Bucket string

	// Prefix stands before the names of all objects, with a slash between them, so that several stores
	// can share a bucket. It is a name as remote.CheckName allows it, of 400 bytes at most, or empty.
	Prefix string

	// AccessKey and SecretKey are the credentials, and SessionToken belongs to temporary ones. If
	// AccessKey is empty, the credentials come from the first of these places that has some: the
	// environment variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; the file
	// ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE names another one, and AWS_PROFILE a section of it);
	// and, with InstanceRole, the cloud. They are looked for again before those of the cloud expire, and when the server
	// has refused them.
	AccessKey, SecretKey, SessionToken string

	// InstanceRole asks the metadata service of the cloud for the credentials of this machine's role.
	// Outside a cloud, that takes long to fail.
	InstanceRole bool

	// Transport makes the requests. nil means that of minio-go: it uses the proxies that the environment
	// names, trusts the system's certificates and those of the file SSL_CERT_FILE, and needs TLS 1.2.
	Transport http.RoundTripper
}

// maxPrefix is the largest length of a prefix in bytes. A key of S3 has 1,024 bytes at most, of which
// the name of an object takes 512.
const maxPrefix = 400

// check returns an error if c can't name a bucket.
func (c *Config) check() error {
	switch {
	case c.Endpoint == "":
		return errors.New("no endpoint: name the server, such as s3.amazonaws.com")
	case strings.Contains(c.Endpoint, "/"):
		return fmt.Errorf("the endpoint %q has a slash; it is a host with or without a port", c.Endpoint)
	case c.Bucket == "":
		return errors.New("no bucket: name the bucket of the server")
	case len(c.Prefix) > maxPrefix:
		return fmt.Errorf("the prefix has %d bytes, at most %d are allowed", len(c.Prefix), maxPrefix)
	}
	if err := s3utils.CheckValidBucketName(c.Bucket); err != nil {
		return fmt.Errorf("the bucket name %q is not allowed: %w", c.Bucket, err)
	}
	if c.Prefix != "" {
		if err := remote.CheckName(c.Prefix); err != nil {
			return fmt.Errorf("prefix: %w", err)
		}
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return errors.New("an access key and a secret key belong together, and one of them is empty")
	}
	return nil
}

// credentials returns where requests get their keys from. It fails if there are none.
func (c *Config) credentials() (*credentials.Credentials, error) {
	if c.AccessKey != "" {
		return credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.SessionToken), nil
	}
	places := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if c.InstanceRole {
		places = append(places, &credentials.IAM{})
	}
	found := credentials.NewChainCredentials(places)
	value, err := found.GetWithContext(nil)
	if err == nil && value.AccessKeyID == "" { // a chain without keys would ask as nobody
		err = errors.New("none were found")
	}
	if err != nil {
		return nil, &RefusedError{fmt.Errorf("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials, or use the role of this machine (?credentials=role in the URL): %w", err)}
	}
	return found, nil
}

// client returns a client of minio-go for c, and sets c's transport.
func (c *Config) client() (*minio.Core, *credentials.Credentials, error) {
	if err := c.check(); err != nil {
		return nil, nil, &RefusedError{err}
	}
	keys, err := c.credentials()
	if err != nil {
		return nil, nil, err
	}
	if c.Transport == nil {
		if c.Transport, err = minio.DefaultTransport(!c.Insecure); err != nil {
			return nil, nil, &RefusedError{err}
		}
	}
	core, err := minio.NewCore(c.Endpoint, &minio.Options{
		Creds:     keys,
		Secure:    !c.Insecure,
		Region:    c.Region,
		Transport: c.Transport,
		// The package comment says why nothing is repeated here.
		MaxRetries: 1,
	})
	if err != nil {
		return nil, nil, &RefusedError{fmt.Errorf("the endpoint %q: %w", c.Endpoint, err)}
	}
	core.SetAppInfo("shale", "1")
	return core, keys, nil
}
