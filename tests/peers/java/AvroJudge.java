import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.stream.Collectors;

import org.apache.avro.AvroRuntimeException;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;

/**
 * Avro's own library for Java, asked line by line: "text SCHEMA" for the text it prints,
 * "reads READER WRITER" for whether the one reads what the other writes, "reasons READER WRITER"
 * for the incompatibilities, as "type location message" with semicolons between. Parts of a question
 * are separated by tabs.
 */
public class AvroJudge {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t");
            try {
                out.println(
                        switch (parts[0]) {
                            case "text" -> text(parts[1]);
                            case "reads" -> reads(parts[1], parts[2]);
                            default -> reasons(parts[1], parts[2]);
                        });
            } catch (AvroRuntimeException error) {
                out.println("refused");
            }
        }
    }

    private static String text(String schema) {
        return new Schema.Parser().parse(schema).toString();
    }

    private static String reasons(String reader, String writer) {
        return SchemaCompatibility.checkReaderWriterCompatibility(
                        new Schema.Parser().parse(reader), new Schema.Parser().parse(writer))
                .getResult()
                .getIncompatibilities()
                .stream()
                .map(each -> each.getType() + " " + each.getLocation() + " " + each.getMessage())
                .collect(Collectors.joining(";"));
    }

    private static String reads(String reader, String writer) {
        return SchemaCompatibility.checkReaderWriterCompatibility(
                        new Schema.Parser().parse(reader), new Schema.Parser().parse(writer))
                .getType()
                .name();
    }
}
