// Writes records with kafkajs, some of them in a transaction, and reads them in a group.
// Arguments: bootstrap servers, topic. Prints one line for each record that was read.

const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [servers, topic] = process.argv.slice(2);
const COUNT = 50;
const kafka = new Kafka({ clientId: "kafkajs", brokers: [servers], logLevel: logLevel.ERROR });

function records(first) {
  return [...Array(COUNT / 2).keys()].map((index) => ({
    key: `key ${first + index}`,
    value: `value ${first + index}`,
    headers: { from: "kafkajs" },
  }));
}

async function write() {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }], waitForLeaders: true });
  await admin.disconnect();
  const producer = kafka.producer({
    transactionalId: `id-${topic}`,
    maxInFlightRequests: 1,
    idempotent: true,
  });
  await producer.connect();
  await producer.send({ topic, compression: CompressionTypes.GZIP, messages: records(0) });
  const lost = await producer.transaction();
  await lost.send({ topic, messages: [{ value: "aborted" }] });
  await lost.abort();
  const kept = await producer.transaction();
  await kept.send({ topic, messages: records(COUNT / 2) });
  await kept.commit();
  await producer.disconnect();
}

async function read() {
  const consumer = kafka.consumer({ groupId: `group-${topic}`, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let seen = 0;
  await new Promise((resolve) => {
    consumer.run({
      autoCommit: true,
      eachBatch: async ({ batch, resolveOffset, commitOffsetsIfNecessary, uncommittedOffsets }) => {
        for (const message of batch.messages) {
          console.log(`${message.value} ${message.headers.from}`);
          resolveOffset(message.offset);
          seen += 1;
        }
        await commitOffsetsIfNecessary(uncommittedOffsets());
        if (seen >= COUNT) resolve();
      },
    });
  });
  await consumer.disconnect();
}

write()
  .then(read)
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
