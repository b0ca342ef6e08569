package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// An asker asks running members, by their pages.
type asker struct {
	env     Environment
	at      []string
	secrets secrets
	wait    time.Duration
}

func (a *asker) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&a.at, "at", []string{defaultHTTP}, "`HOST:PORT` of a member's --http; several with commas, of which the one that leads is used")
	f.DurationVar(&a.wait, "wait", time.Minute, "how long to wait for an answer")
	a.secrets.flags(cmd, false)
}

func membersCommand(env Environment) *cobra.Command {
	a := &asker{env: env}
	cmd := &cobra.Command{
		Use: "members", Short: "list the members of a group", Args: words("members", 0, 0), DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.ask(cmd.Context(), http.MethodGet, "members", nil)
			if err != nil {
				return err
			}
			return a.print(list)
		},
	}
	a.flags(cmd)
	return cmd
}

func joinCommand(env Environment) *cobra.Command {
	a := &asker{env: env}
	var learner bool
	usage := "join ID HOST:PORT"
	cmd := &cobra.Command{
		Use: usage, Short: "take a member into a group", Args: words(usage, 2, 2), DisableFlagsInUseLine: true,
		Long: strings.TrimSpace(`
Takes in the member ID, which runs and listens for members at HOST:PORT. A member that was started with --join enters by
itself and needs no such command. It gets a vote as soon as it has nearly all that the others have.`),
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := checkAddr("", words[1]); err != nil {
				return fmt.Errorf("%s is not an address: write the HOST:PORT of the member's --listen", words[1])
			}
			list, err := a.ask(cmd.Context(), http.MethodPost, "members", changeRequest{words[0], words[1], learner})
			if err != nil {
				return err
			}
			return a.print(list)
		},
	}
	cmd.Flags().BoolVar(&learner, "learner", false, "without a vote")
	a.flags(cmd)
	return cmd
}

func leaveCommand(env Environment) *cobra.Command {
	a := &asker{env: env}
	usage := "leave ID"
	cmd := &cobra.Command{
		Use: usage, Short: "remove a member from a group", Args: words(usage, 1, 1), DisableFlagsInUseLine: true,
		Long: strings.TrimSpace(`
Removes the member ID, which may be down. Its folder is of no use afterwards: to bring it back, start it with --join and
an empty folder.`),
		RunE: func(cmd *cobra.Command, words []string) error {
			list, err := a.ask(cmd.Context(), http.MethodDelete, "members/"+url.PathEscape(words[0]), changeRequest{})
			if err != nil {
				return err
			}
			return a.print(list)
		},
	}
	a.flags(cmd)
	return cmd
}

func transferCommand(env Environment) *cobra.Command {
	a := &asker{env: env}
	usage := "transfer [ID]"
	cmd := &cobra.Command{
		Use: usage, Short: "hand the lead of a group to another member", Args: words(usage, 0, 1), DisableFlagsInUseLine: true,
		Long: "Hands the lead to the member ID, or to the one that is best prepared. Clients of the old leader need do nothing.",
		RunE: func(cmd *cobra.Command, words []string) error {
			var c changeRequest
			if len(words) > 0 {
				c.ID = words[0]
			}
			list, err := a.ask(cmd.Context(), http.MethodPost, "leader", c)
			if err != nil {
				return err
			}
			return a.print(list)
		},
	}
	a.flags(cmd)
	return cmd
}

// print prints the members.
func (a *asker) print(list []memberJSON) error {
	w := tabwriter.NewWriter(a.env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "member\taddress\tvote\t\tbehind\tdisk free\tversion\tbackup")
	for _, m := range list {
		vote, lead := "yes", ""
		if !m.Voter {
			vote = "no"
		}
		if m.Leader {
			lead = "leads"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", m.ID, m.Address, vote, lead)
		if m.Why != "" {
			fmt.Fprintf(w, "unreachable: %s\n", m.Why)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.Behind, m.About["disk free"], m.About["version"], m.About["backup"])
	}
	return w.Flush()
}

// ask sends a request to one of the members. If that can't be reached, or does not lead and the request needs the
// leader, it asks the others.
func (a *asker) ask(ctx context.Context, method, path string, body any) ([]memberJSON, error) {
	if err := a.secrets.read(a.env.Getenv); err != nil {
		return nil, err
	}
	t, err := a.secrets.caller()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: t}}
	defer client.CloseIdleConnections()
	scheme := "http"
	if t != nil {
		scheme = "https"
	}
	var errs []error
	for _, at := range a.at {
		if err := checkAddr("at ", at); err != nil {
			return nil, err
		}
		list, err := a.askOne(ctx, client, method, scheme+"://"+at+"/"+path, body)
		if err == nil {
			return list, nil
		}
		if errors.As(err, new(*refusal)) {
			return nil, fmt.Errorf("%s: %w", at, err) // the others would only say that they do not lead
		}
		errs = append(errs, fmt.Errorf("%s: %w", at, err))
	}
	return nil, errors.Join(errs...)
}

func (a *asker) askOne(ctx context.Context, client *http.Client, method, target string, body any) ([]memberJSON, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if a.secrets.password != "" {
		r.SetBasicAuth("default", a.secrets.password)
	}
	answer, err := client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the address, which the caller names
		}
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var list []memberJSON
	var refused errorJSON
	switch {
	case answer.StatusCode == http.StatusOK:
		return list, json.Unmarshal(text, &list)
	case answer.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("the member has a password: give --password-file, or set %s", passwordVariable)
	case answer.StatusCode == http.StatusBadRequest && strings.Contains(string(text), "HTTPS server"):
		return nil, errors.New("the member talks TLS: give --tls-ca")
	case json.Unmarshal(text, &refused) != nil || refused.Error == "":
		return nil, errors.New(strings.TrimSpace(string(text)))
	case refused.Leader != "":
		return nil, fmt.Errorf("%s; ask that one with --at", refused.Error)
	case answer.StatusCode == http.StatusMisdirectedRequest:
		return nil, errors.New(refused.Error)
	}
	return nil, &refusal{refused.Error}
}

// A refusal is the error of a member that could have done what it was asked for.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
