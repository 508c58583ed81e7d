import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.util.Enumeration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

/**
 * Apache Flink ships ZooKeeper and Curator under package names of its own. This program gives their classes the original names
 * back, so that they run as the projects published them: {@code java Unshade.java IN.jar OUT.jar [FOLDER...]}. With folders the
 * new jar has only the classes below them.
 *
 * A class names packages only in the text entries of its constant pool. Each entry has a length of its own and the rest of the
 * class refers to entries by number, so the program changes these entries and copies everything else.
 */
public class Unshade {
    private static final Pattern SHADED = Pattern.compile("org([/.])apache\\1flink\\1shaded\\1(zookeeper3|curator[45])\\1");
    private static final int CLASS_FILE = 0xCAFEBABE;

    public static void main(String[] arguments) throws IOException {
        List<String> folders = List.of(arguments).subList(2, arguments.length);
        int count = 0;
        try (ZipFile in = new ZipFile(arguments[0]);
            ZipOutputStream out = new ZipOutputStream(new FileOutputStream(arguments[1]))) {
            for (Enumeration<? extends ZipEntry> entries = in.entries(); entries.hasMoreElements();) {
                ZipEntry entry = entries.nextElement();
                Matcher shaded = SHADED.matcher(entry.getName());
                if (entry.isDirectory() || !shaded.lookingAt()) {
                    continue;
                }
                String name = entry.getName().substring(shaded.end());
                if (!folders.isEmpty() && folders.stream().noneMatch(name::startsWith)) {
                    continue;
                }
                byte[] bytes = in.getInputStream(entry).readAllBytes();
                ZipEntry renamed = new ZipEntry(name);
                renamed.setTime(0);
                out.putNextEntry(renamed);
                out.write(name.endsWith(".class") ? unshaded(bytes) : bytes);
                out.closeEntry();
                count++;
            }
        }
        if (count == 0) {
            throw new IOException(arguments[0] + " has no class of Flink's ZooKeeper or Curator");
        }
    }

    /** Returns the class with the original package names. */
    private static byte[] unshaded(byte[] bytes) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
        ByteArrayOutputStream result = new ByteArrayOutputStream(bytes.length);
        DataOutputStream out = new DataOutputStream(result);
        int magic = in.readInt();
        if (magic != CLASS_FILE) {
            throw new IOException("not a class");
        }
        out.writeInt(magic);
        out.writeInt(in.readInt()); // the version
        int end = in.readUnsignedShort();
        out.writeShort(end);
        for (int number = 1; number < end; number++) {
            int tag = in.readUnsignedByte();
            out.writeByte(tag);
            if (tag == 1) {
                out.writeUTF(SHADED.matcher(in.readUTF()).replaceAll(""));
            } else {
                out.write(in.readNBytes(size(tag)));
            }
            if (tag == 5 || tag == 6) {
                number++; // A long and a double take two numbers.
            }
        }
        in.transferTo(out);
        return result.toByteArray();
    }

    /** Returns the number of bytes that follow the tag of an entry, which is not a text. */
    private static int size(int tag) throws IOException {
        switch (tag) {
            case 7: // class
            case 8: // string
            case 16: // method type
            case 19: // module
            case 20: // package
                return 2;
            case 15: // method handle
                return 3;
            case 3: // int
            case 4: // float
            case 9: // field
            case 10: // method
            case 11: // method of an interface
            case 12: // name and type
            case 17: // dynamic constant
            case 18: // dynamic call
                return 4;
            case 5: // long
            case 6: // double
                return 8;
            default:
                throw new IOException("a constant of the unknown kind " + tag);
        }
    }
}
