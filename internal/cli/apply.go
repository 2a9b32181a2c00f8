package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"connectrpc.com/connect"

	fairleadv1 "github.com/fairlead-platform/fairlead/api/fairlead/v1"
	"github.com/fairlead-platform/fairlead/internal/fault"
)

// documentFlag names the file that documents are read from.
type documentFlag struct {
	File string `short:"f" name:"file" required:"" placeholder:"FILE|-" help:"File of one or more documents, or - for standard input."`
}

// read reads all documents and the files that they name: nothing is asked of
// anybody before all of them can be read.
func (f documentFlag) read(c *call) ([]described, error) {
	text, folder, err := f.text(c)
	if err != nil {
		return nil, err
	}
	all, err := documents(text)
	if err != nil {
		return nil, err
	}
	out := make([]described, 0, len(all))
	for _, d := range all {
		one, err := describe(d, folder)
		if err == nil {
			_, err = one.template()
		}
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", d.Metadata.Name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// maxDocuments bounds what is read, in bytes.
const maxDocuments = 8 << 20

func (f documentFlag) text(c *call) (text []byte, folder string, err error) {
	in, folder := c.env.Stdin, "."
	if f.File != "-" {
		file, err := os.Open(f.File)
		if err != nil {
			return nil, "", fault.New(fault.Invalid, "", "cannot read documents: %w", err)
		}
		defer file.Close()
		in, folder = file, filepath.Dir(f.File)
	}
	text, err = io.ReadAll(io.LimitReader(in, maxDocuments+1))
	if err == nil && len(text) > maxDocuments {
		err = fault.New(fault.Invalid, "", "cannot read documents: there are more than %d bytes", maxDocuments)
	}
	return text, folder, err
}

type applyCmd struct {
	documentFlag
	waitFlags
}

// Run writes all documents, each bound to what it read, and then follows each.
func (cmd *applyCmd) Run(c *call) error {
	all, err := cmd.read(c)
	if err != nil {
		return err
	}
	cl, err := c.dial()
	if err != nil {
		return err
	}
	defer cl.close()
	var asked []applied
	for _, d := range all {
		a, err := c.apply(cl, d)
		if err != nil {
			c.tellApplied(asked)
			return fmt.Errorf("service %s: %w", d.Metadata.Name, err)
		}
		asked = append(asked, a)
	}
	var failed error
	for _, a := range asked {
		failed = cmp.Or(failed, c.followApplied(cl, a, cmd.waitFlags))
	}
	return failed
}

// applied is what became of one document.
type applied struct {
	service string
	*fairleadv1.DeployResponse
}

func (c *call) apply(cl *client, d described) (applied, error) {
	base, err := c.standing(cl, d.Metadata.Name)
	if err != nil {
		return applied{}, err
	}
	req, err := d.request(base)
	if err != nil {
		return applied{}, err
	}
	if d.file != nil {
		if err := c.upload(cl, d.file); err != nil {
			return applied{}, err
		}
	}
	resp, err := cl.Deploy(c.ctx, connect.NewRequest(req))
	if err != nil {
		return applied{}, remote(err)
	}
	if text := resp.Msg.GetMessage(); text != "" {
		fmt.Fprintf(c.env.Stderr, "%s: %s\n", d.Metadata.Name, text)
	}
	return applied{service: d.Metadata.Name, DeployResponse: resp.Msg}, nil
}

// tellApplied names what was asked for before something was refused.
func (c *call) tellApplied(asked []applied) {
	for _, a := range asked {
		if !a.GetUnchanged() {
			fmt.Fprintf(c.env.Stderr, "generation %d of %s was asked for before, and goes on\n", a.GetGeneration(), a.service)
		}
	}
}

func (c *call) followApplied(cl *client, a applied, wait waitFlags) error {
	if a.GetUnchanged() {
		return c.unchanged(cl, a.service, a.DeployResponse)
	}
	return c.follow(cl, following{service: a.service, generation: a.GetGeneration(), verb: "deploy", wait: wait})
}

// standingOf hides a tombstone: a service that is deleted stands no more.
func standingOf(s *fairleadv1.Service) *fairleadv1.Service {
	if s.GetDeleted() {
		return nil
	}
	return s
}
