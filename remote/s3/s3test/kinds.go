package s3test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A kind is a program that is an S3 server.
type kind struct {
	source
	ports int // that it needs; the first is that of S3
	// command returns the command of a server that keeps its buckets in dir. clean removes what that leaves elsewhere.
	command func(program, dir string, addrs []string) (cmd *exec.Cmd, clean func(), err error)
}

// kinds are the servers of Each.
var kinds = []*kind{versitygw, seaweedFS, goFakeS3}

// versitygw keeps objects as files. It is the server of most tests, because it is built in a minute.
var versitygw = &kind{
	source: source{
		name: "versitygw", version: "v1.8.0",
		module: "github.com/versity/versitygw", pkg: "github.com/versity/versitygw/cmd/versitygw",
	},
	ports: 1,
	command: func(program, dir string, addrs []string) (*exec.Cmd, func(), error) {
		return exec.Command(program, "--access", AccessKey, "--secret", SecretKey, "--region", region,
			"--port", addrs[0], "--quiet", "posix", dir), func() {}, nil
	},
}

// seaweedFS keeps the bytes of objects in large files, and their names in a database. It shares no code with versitygw.
// With it, 32 clients that create one object at the same time wait for five to seven seconds.
var seaweedFS = &kind{
	source: source{
		name: "seaweedfs", version: "v0.0.0-20261109003541-7506e5f91cd6",
		module: "github.com/seaweedfs/seaweedfs", pkg: "github.com/seaweedfs/seaweedfs/weed",
		replace: "replace github.com/tyler-smith/go-bip39 => github.com/cosmos/go-bip39 v1.0.0\n",
	},
	ports:   8,
	command: weed,
}

// weed returns the command of a SeaweedFS of all its parts in one process: master, volumes, filer and S3.
func weed(program, dir string, addrs []string) (cmd *exec.Cmd, clean func(), err error) {
	keys := filepath.Join(dir, "s3.json")
	if err := os.WriteFile(keys, fmt.Appendf(nil, `{"identities": [{"name": "shale", "actions": ["Admin"],
		"credentials": [{"accessKey": %q, "secretKey": %q}]}]}`, AccessKey, SecretKey), 0o600); err != nil {
		return nil, nil, err
	}
	args := strings.Fields(`-logtostderr=true server -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -s3.autoCreateBucket=false
		-s3.port.iceberg=0 -s3.port.lance=0 -master.telemetry=false -master.volumeSizeLimitMB=64 -volume.max=0`)
	args = append(args, "-dir="+dir, "-s3.config="+keys)
	var sockets []string
	for i, part := range []string{"s3", "master", "volume", "filer"} {
		_, port, _ := net.SplitHostPort(addrs[2*i])
		_, grpc, _ := net.SplitHostPort(addrs[2*i+1])
		args = append(args, "-"+part+".port="+port, "-"+part+".port.grpc="+grpc)
		sockets = append(sockets, fmt.Sprintf("/tmp/seaweedfs-%s-%s.sock", part, port), fmt.Sprintf("/tmp/seaweedfs-%s-grpc-%s.sock", part, grpc))
	}
	cmd = exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir)
	return cmd, func() {
		// No option moves the sockets of the server to another place, and it does not remove them when it is killed.
		for _, s := range sockets {
			_ = os.Remove(s) // it has made most of them
		}
	}, nil
}

// goFakeS3 keeps objects in memory. It is made for tests of programs, and knows neither credentials nor the checksums that a
// store needs, so remote.Probe refuses it.
var goFakeS3 = &kind{
	source: source{
		name: "gofakes3", version: "v1.2.0",
		module: "github.com/johannesboyne/gofakes3", pkg: "github.com/johannesboyne/gofakes3/cmd/gofakes3",
	},
	ports: 1,
	command: func(program, dir string, addrs []string) (*exec.Cmd, func(), error) {
		return exec.Command(program, "-host", addrs[0], "-backend", "mem"), func() {}, nil
	},
}
