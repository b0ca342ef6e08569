package s3

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Buckets as URLs. Credentials are no part of them in either direction: neither is one accepted
// with a password, nor is one printed.

// ParseURL returns the Config of a bucket that is written as a URL:
//
//	s3://HOST[:PORT]/BUCKET[/PREFIX][?region=REGION][&credentials=role]         over TLS
//	s3+http://HOST[:PORT]/BUCKET[/PREFIX][?region=REGION][&credentials=role]    over plain HTTP
//
// With credentials=role, the credentials may be those of this machine's role in the cloud ([Config.InstanceRole]).
// It refuses a URL with a user name or a password: other users of the machine can see what is on a command
// line. Credentials come from the places that Config names.
func ParseURL(text string) (Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		var parts *url.Error
		if errors.As(err, &parts) {
			err = parts.Err // without the URL, which may have a password
		}
		return Config{}, fmt.Errorf("s3: the bucket's URL: %w", err)
	}
	if u.User != nil {
		return Config{}, fmt.Errorf("s3: the URL of bucket %s has credentials, which other users of this machine could see; "+
			"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead", u.Host+u.Path)
	}
	c := Config{Endpoint: u.Host, Insecure: u.Scheme == "s3+http"}
	path := strings.TrimPrefix(u.Path, "/")
	c.Bucket, c.Prefix, _ = strings.Cut(path, "/")
	c.Prefix = strings.TrimSuffix(c.Prefix, "/")
	query := u.Query()
	c.Region = query.Get("region")
	c.InstanceRole = query.Get("credentials") == "role"
	query.Del("region")
	if c.InstanceRole {
		query.Del("credentials")
	}
	switch {
	case !IsURL(text):
		return Config{}, fmt.Errorf("s3: %s is not the URL of a bucket; write s3://HOST/BUCKET/PREFIX", text)
	case c.Endpoint == "" || c.Bucket == "":
		return Config{}, fmt.Errorf("s3: %s has no server or no bucket; write s3://HOST/BUCKET/PREFIX", text)
	case len(query) > 0 || u.Fragment != "":
		return Config{}, fmt.Errorf("s3: %s: only ?region=REGION and &credentials=role may follow the prefix", text)
	}
	if err := c.check(); err != nil {
		return Config{}, fmt.Errorf("s3: %s: %w", text, err)
	}
	return c, nil
}

// IsURL reports whether text begins as [ParseURL] expects it.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "s3://") || strings.HasPrefix(text, "s3+http://")
}

// String returns c as a URL, without credentials.
func (c Config) String() string {
	u := url.URL{Scheme: "s3", Host: c.Endpoint, Path: "/" + c.Bucket}
	if c.Insecure {
		u.Scheme = "s3+http"
	}
	if c.Prefix != "" {
		u.Path += "/" + c.Prefix
	}
	query := url.Values{}
	if c.Region != "" {
		query.Set("region", c.Region)
	}
	if c.InstanceRole {
		query.Set("credentials", "role")
	}
	u.RawQuery = query.Encode()
	return u.String()
}
