/** The answers of a peer: one line each, from any thread. */
final class Answers {
    /** Carries out the command of a line, whose first word is the number of the question. */
    interface Command {
        String obey(String[] words) throws Exception;
    }

    private Answers() {
    }

    /** Answers a line with the result of the command, or with its failure. */
    static void answer(String[] words, Command command) {
        String answer;
        try {
            answer = "ok " + command.obey(words);
        } catch (Throwable failure) {
            answer = "error " + String.valueOf(failure).replace('\n', ' ');
        }
        synchronized (System.out) {
            System.out.println("> " + words[0] + " " + answer);
            System.out.flush();
        }
    }
}
