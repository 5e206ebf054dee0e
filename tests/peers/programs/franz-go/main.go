// Writes records with franz-go, some of them in a transaction, and reads them in a group.
// Arguments: bootstrap servers, topic. Prints one line for each record that was read.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 50

func records(first int) []*kgo.Record {
	var found []*kgo.Record
	for number := first; number < first+count/2; number++ {
		found = append(found, &kgo.Record{
			Key:     []byte(fmt.Sprintf("key %d", number)),
			Value:   []byte(fmt.Sprintf("value %d", number)),
			Headers: []kgo.RecordHeader{{Key: "from", Value: []byte("franz-go")}},
		})
	}
	return found
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(ctx context.Context, servers, topic string) {
	plain, err := kgo.NewClient(
		kgo.SeedBrokers(servers),
		kgo.DefaultProduceTopic(topic),
		kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()),
	)
	check(err)
	check(plain.ProduceSync(ctx, records(0)...).FirstErr())
	plain.Close()

	transactional, err := kgo.NewClient(
		kgo.SeedBrokers(servers),
		kgo.DefaultProduceTopic(topic),
		kgo.TransactionalID("id-"+topic),
	)
	check(err)
	defer transactional.Close()
	for _, outcome := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		check(transactional.BeginTransaction())
		check(transactional.ProduceSync(ctx, records(count/2)...).FirstErr())
		check(transactional.EndTransaction(ctx, outcome))
	}
}

func read(ctx context.Context, servers, topic string) {
	reader, err := kgo.NewClient(
		kgo.SeedBrokers(servers),
		kgo.ConsumerGroup("group-"+topic),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.DisableAutoCommit(),
	)
	check(err)
	defer reader.Close()
	for seen := 0; seen < count; {
		fetched := reader.PollFetches(ctx)
		check(fetched.Err())
		fetched.EachRecord(func(record *kgo.Record) {
			fmt.Printf("%s %s\n", record.Value, record.Headers[0].Value)
			seen++
		})
	}
	check(reader.CommitUncommittedOffsets(ctx))
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	write(ctx, os.Args[1], os.Args[2])
	read(ctx, os.Args[1], os.Args[2])
}
