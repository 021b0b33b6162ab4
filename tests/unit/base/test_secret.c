/* test_secret.c - what looks like a secret is masked, and what people look for in a report stays.
 */
#include "base/buf.h"
#include "base/secret.h"
#include "check.h"

/* Words of a command, and what is to be written down of each; `want` NULL: it stays. */
struct word {
    const char *word, *want;
};

static void check_words(const struct word *w, size_t n)
{
    struct stk_secret s = {0};
    for (size_t i = 0; i < n; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_put(&s, w[i].word, strlen(w[i].word), &b);
        CHECK_STR(stk_buf_cstr(&b), w[i].want ? w[i].want : w[i].word);
        stk_buf_release(&b);
    }
}

static void one_word(void)
{
    static const char *const cases[][2] = {
        {"--token=abc", "--token=***"},
        {"--hf-token=abc def;x", "--hf-token=***"},
        {"--hf_token=abc", "--hf_token=***"},
        {"--hfToken=abc", "--hfToken=***"},
        {"-token=abc", "-token=***"},
        {"--api-key=abc", "--api-key=***"},
        {"--apikey=abc", "--apikey=***"},
        {"--apiKey=abc", "--apiKey=***"},
        {"--secret-access-key=abc", "--secret-access-key=***"},
        {"password=hunter2", "password=***"},
        {"PASSWORD=hunter2", "PASSWORD=***"},
        {"--db-password=x", "--db-password=***"},
        {"PGPASSWORD=x", "PGPASSWORD=***"},
        {"MYSQL_PWD=x", "MYSQL_PWD=***"},
        {"DB_PASS=x", "DB_PASS=***"},
        {"SSHPASS=x", "SSHPASS=***"},
        {"WANDB_API_KEY=0123456789abcdef", "WANDB_API_KEY=***"},
        {"AWS_SECRET_ACCESS_KEY=a/b+c=", "AWS_SECRET_ACCESS_KEY=***"},
        {"AWS_SESSION_TOKEN=a", "AWS_SESSION_TOKEN=***"},
        {"SLURM_JWT=eyx", "SLURM_JWT=***"},
        {"+wandb.api_key=abc", "+wandb.api_key=***"},
        {"hub.token=abc", "hub.token=***"},
        {"https://vic:s3cret@host/x", "https://vic:***@host/x"},
        {"mongodb+srv://vic:s3@host/db", "mongodb+srv://vic:***@host/db"},
        {"postgresql://u:p%40x@h:5432/db", "postgresql://u:***@h:5432/db"},
        {"https://ghp_0123456789abcdefghij@github.com/x", "https://***@github.com/x"},
        {"https://h/b?x=1&token=abc&y=2", "https://h/b?x=1&token=***&y=2"},
        {"https://h/b?X-Amz-Signature=abc", "https://h/b?X-Amz-Signature=***"},
        {"https://a.net/b?sv=1&sig=a%2Fb", "https://a.net/b?sv=1&sig=***"},
        {"Authorization: Bearer abcdefgh", "Authorization: Bearer ***"},
        {"Authorization: Basic dmljOng=", "Authorization: Basic ***"},
        {"X-Api-Key: abc", "X-Api-Key: ***"},
        {"{\"api_key\": \"abc\", \"n\": 5}", "{\"api_key\": \"***\", \"n\": 5}"},
        {"{'password':'a b','n':5}", "{'password':'***','n':5}"},
        {"AccountName=x;AccountKey=abc==;Endpoint=y", "AccountName=x;AccountKey=***;Endpoint=y"},
        {"hf_abcdefghijklmnopqrstuvwxyzABCD", "***"},
        {"ghp_0123456789abcdefghijABCD", "***"},
        {"pass:hunter2", "pass:***"},
        {"export HF_TOKEN=abc; python x.py --token def --n 5",
         "export HF_TOKEN=***; python x.py --token *** --n 5"},
        {"curl -u vic:s3cret https://h", "curl -u vic:*** https://h"},
        {"python -c 'login(token=\"abc\")'", "python -c 'login(token=\"***\")'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_words(&(struct word){cases[i][0], cases[i][1]}, 1);
}

static void stays(void)
{
    static const char *const cases[] = {
        "--tokenizer=gpt2",
        "--num-tokens=5",
        "--max-tokens=4096",
        "--token=5",
        "--pad-token=<pad>",
        "--mask_token=[MASK]",
        "--eos-token=end",
        "--token-length=5",
        "--keys=a,b",
        "--key=jpg",
        "--image-key=jpg",
        "--sort-key=name",
        "--passes=3",
        "--pass=2",
        "--pwd=/work",
        "PWD=/work",
        "--password-file=/home/vic/pw",
        "--bypass=x",
        "--compass=north",
        "--no-password=x",
        "--use-auth-token=true",
        "--token=$HF_TOKEN",
        "--token=",
        "--user=vic",
        "--user=1000:1000",
        "--auth=kerberos",
        "--author=vic",
        "--secretary=x",
        "--keyboard=us",
        "--cookies=file",
        "ssh://git@github.com/x.git",
        "https://host:8080/x",
        "file:///data/x",
        "vic@host:/data",
        "/data/token=a/part-0",
        "/data/secret:/mnt",
        "0123456789abcdef0123456789abcdef01234567",
        "sk-learn",
        "--lr=1e-3",
        "train.py",
        "",
        "***",
        "--token=***",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_words(&(struct word){cases[i], NULL}, 1);
}

#define WORDS(...)                                                                                 \
    check_words((const struct word[]){__VA_ARGS__},                                                \
                sizeof((const struct word[]){__VA_ARGS__}) / sizeof(struct word))

/* An option says what the next word is. */
static void two_words(void)
{
    WORDS({"--api-key", NULL}, {"abc", "***"}, {"abc", NULL});
    WORDS({"--token", NULL}, {"a b=c", "***"}, {"--n", NULL}, {"5", NULL});
    WORDS({"--tokenizer", NULL}, {"gpt2", NULL});
    WORDS({"--num-tokens", NULL}, {"5", NULL});
    WORDS({"--token", NULL}, {"5", NULL});
    WORDS({"--keys", NULL}, {"a,b", NULL});
    WORDS({"--passes", NULL}, {"3", NULL});
    WORDS({"--password", NULL}, {"--verbose", NULL}, {"x", NULL});
    WORDS({"--password", NULL}, {"", NULL}, {"x", NULL});
    WORDS({"-u", NULL}, {"vic:s3cret", "vic:***"}, {"vic:s3cret", NULL});
    WORDS({"--user", NULL}, {"vic", NULL}, {"x:y", NULL});
    WORDS({"env", NULL}, {"HF_TOKEN=abc", "HF_TOKEN=***"}, {"python", NULL}, {"x.py", NULL});
    WORDS({"-H", NULL}, {"Authorization: Bearer abcdefgh", "Authorization: Bearer ***"});
    WORDS({"token", NULL}, {"abc", NULL}); /* no option: a word like any other */
}

static void texts(void)
{
    static const char *const cases[][2] = {
        {"python train.py --token abc --n 5", "python train.py --token *** --n 5"},
        {"TOKEN=abc python train.py", "TOKEN=*** python train.py"},
        {"./x --token='a b' c", "./x --token='***' c"},
        {"./x --password", "./x --password"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_text(cases[i][0], strlen(cases[i][0]), &b);
        CHECK_STR(stk_buf_cstr(&b), cases[i][1]);
        stk_buf_release(&b);
    }
}

/* Every cut of every text: nothing is read past its end (ASan), nothing hangs. */
static void cut_anywhere(void)
{
    static const char text[] = "a://b:c@d --token x \"password\": \"y\" -u v:w Bearer abcdefghij";
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = malloc(n + 1);
        struct stk_buf b = STK_BUF_INIT;
        struct stk_secret s = {0};
        CHECK(copy != NULL);
        memcpy(copy, text + sizeof text - 1 - n, n);
        stk_secret_put(&s, copy, n, &b);
        stk_buf_reset(&b);
        memcpy(copy, text, n);
        stk_secret_put(&s, copy, n, &b);
        stk_buf_release(&b);
        free(copy);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(one_word);
    CHECK_RUN(stays);
    CHECK_RUN(two_words);
    CHECK_RUN(texts);
    CHECK_RUN(cut_anywhere);
    return CHECK_DONE();
}
