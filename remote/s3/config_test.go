package s3_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shaledb/shale/remote/s3"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]s3.Config{
		"s3://s3.amazonaws.com/backups":                                 {Endpoint: "s3.amazonaws.com", Bucket: "backups"},
		"s3://s3.amazonaws.com/backups/":                                {Endpoint: "s3.amazonaws.com", Bucket: "backups"},
		"s3://minio.example.org:9000/backups/hosts/eu?region=eu-west-1": {Endpoint: "minio.example.org:9000", Bucket: "backups", Prefix: "hosts/eu", Region: "eu-west-1"},
		"s3://s3.eu-west-1.amazonaws.com/backups?credentials=role":      {Endpoint: "s3.eu-west-1.amazonaws.com", Bucket: "backups", InstanceRole: true},
		"s3://host/backups/eu?region=eu-west-1&credentials=role":        {Endpoint: "host", Bucket: "backups", Prefix: "eu", Region: "eu-west-1", InstanceRole: true},
		"s3+http://127.0.0.1:7070/backups/hosts/":                       {Endpoint: "127.0.0.1:7070", Insecure: true, Bucket: "backups", Prefix: "hosts"},
		"s3+http://[::1]:7070/backups":                                  {Endpoint: "[::1]:7070", Insecure: true, Bucket: "backups"},
	} {
		got, err := s3.ParseURL(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again, err := s3.ParseURL(got.String()); err != nil || again != want {
			t.Errorf("%s becomes %s, and that %+v, %v", text, got, again, err)
		}
		if !s3.IsURL(text) {
			t.Errorf("IsURL(%s) is false", text)
		}
	}
}

// TestParseURL_Wrong checks that a mistake is named, and that no error repeats a password.
func TestParseURL_Wrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "write s3://HOST/BUCKET/PREFIX",
		"/a/directory":                      "write s3://HOST/BUCKET/PREFIX",
		"http://host/bucket":                "write s3://HOST/BUCKET/PREFIX",
		"s3:bucket":                         "write s3://HOST/BUCKET/PREFIX",
		"s3://bucket":                       "no server or no bucket",
		"s3://host/":                        "no server or no bucket",
		"s3:///bucket/prefix":               "no server or no bucket",
		"s3://host/bucket?regoin=x":         "only ?region=REGION",
		"s3://host/bucket?credentials=mine": "only ?region=REGION",
		"s3://host/bucket#part":             "only ?region=REGION",
		"s3://host/no":                      `bucket name "no"`,
		"s3://host/bucket/Upper":            `the part "Upper"`,
		"s3://host/bucket/a//b":             "prefix",
		"s3://me:hunter2@host/bucket":       "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead",
		"s3://me:hunter2@ho st/bucket":      "bucket's URL",
		"s3://host/bucket/" + longPrefix():  "at most 400",
		"s3+http://me:hunter2@[::1/bucket/": "bucket's URL",
	} {
		got, err := s3.ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v; want %q", text, got, err, want)
		}
	}
}

func longPrefix() string { return strings.Repeat("long/", 81) + "prefix" }

// TestNew_WrongConfig checks mistakes that need no server to be found.
func TestNew_WrongConfig(t *testing.T) {
	withoutCredentials(t)
	right := s3.Config{Endpoint: "127.0.0.1:1", Bucket: "bucket", AccessKey: "key", SecretKey: "hunter2"}
	for want, change := range map[string]func(c *s3.Config){
		"no endpoint":             func(c *s3.Config) { c.Endpoint = "" },
		"has a slash":             func(c *s3.Config) { c.Endpoint = "http://127.0.0.1:1" },
		"no bucket":               func(c *s3.Config) { c.Bucket = "" },
		"bucket name \"B\"":       func(c *s3.Config) { c.Bucket = "B" },
		"prefix":                  func(c *s3.Config) { c.Prefix = "a/" },
		"one of them is empty":    func(c *s3.Config) { c.SecretKey = "" },
		"set AWS_ACCESS_KEY_ID":   func(c *s3.Config) { c.AccessKey, c.SecretKey = "", "" },
		"the endpoint \"a b\"":    func(c *s3.Config) { c.Endpoint = "a b" },
		"at most 400 are allowed": func(c *s3.Config) { c.Prefix = longPrefix() },
	} {
		c := right
		change(&c)
		if _, err := s3.New(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// withoutCredentials makes a test independent of those of the user.
func withoutCredentials(t *testing.T) (file string) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	file = filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	return file
}

// TestNew_Credentials finds the credentials in each of the places, in their order.
func TestNew_Credentials(t *testing.T) {
	file := withoutCredentials(t)
	c := s3.Config{Endpoint: fakeServer(t, answering(emptyList)).addr, Insecure: true, Region: "r", Bucket: "bucket"}
	for _, step := range []struct {
		want string
		set  func() error
	}{
		{"from-the-file", func() error {
			return os.WriteFile(file, []byte("[default]\naws_access_key_id = from-the-file\naws_secret_access_key = s\n[other]\naws_access_key_id = from-the-profile\naws_secret_access_key = s\n"), 0o600)
		}},
		{"from-the-profile", func() error { return os.Setenv("AWS_PROFILE", "other") }},
		{"from-the-environment", func() error {
			_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "s") // a wrong name would be found by the test
			return os.Setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
		}},
		{"from-the-program", func() error { c.AccessKey, c.SecretKey = "from-the-program", "s"; return nil }},
	} {
		if err := step.set(); err != nil {
			t.Fatal(err)
		}
		server := fakeServer(t, answering(emptyList))
		c.Endpoint = server.addr
		open(t, c)
		if got := server.last().Header.Get("Authorization"); !strings.Contains(got, "Credential="+step.want+"/") {
			t.Errorf("the request is signed with %q, want %s", got, step.want)
		}
	}
}
