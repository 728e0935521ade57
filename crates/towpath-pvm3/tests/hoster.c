/* `hoster serve FOLDER` starts one host, with a home in FOLDER; `hoster add NAME` has it added and
   deleted, and tries to be a hoster too; `hoster elsewhere` tries it on the host where it runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pvm3.h>
#include <pvmproto.h>

static int serve(const char *folder)
{
    static char options[256], login[256], command[8192], line[4096], words[16384];
    int hosts, tid, wait;
    struct pvmminfo info;
    FILE *answer;
    pvm_setopt(PvmResvTids, 1);
    printf("hoster: %d\n", pvm_reg_hoster());
    pvm_recv(-1, SM_STHOST);
    pvm_getminfo(pvm_getrbuf(), &info);
    wait = info.wid;
    pvm_upkint(&hosts, 1, 1);
    pvm_upkint(&tid, 1, 1);
    pvm_upkstr(options);
    pvm_upkstr(login);
    pvm_upkstr(command);
    printf("%d host, %s\n", hosts, login);
    snprintf(words, sizeof words, "TOWPATH_HOME=%s/%s; export TOWPATH_HOME; %s", folder, login, command);
    answer = popen(words, "r");
    if (!fgets(line, sizeof line, answer))
        strcpy(line, "PvmCantStart");
    printf("%.12s\n", line);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&tid, 1, 1);
    pvm_pkstr(line);
    pvm_getminfo(pvm_getsbuf(), &info);
    info.wid = wait;
    pvm_setminfo(pvm_getsbuf(), &info);
    pvm_send(0x80000000, SM_STHOSTACK);
    pvm_recv(-1, 1);
    printf("hoster no more: %d\n", pvm_reg_hoster());
    pvm_exit();
    return 0;
}

static int add(char *self, char *name)
{
    char *bare = strtok(strdup(name), " "), *args[] = {"elsewhere", 0};
    int code, tid, hosts, added;
    struct pvmmboxinfo *boxes;
    pvm_setopt(PvmAutoErr, 0);
    printf("a second one: %d\n", pvm_reg_hoster());
    added = pvm_addhosts(&name, 1, &code);
    printf("added %d, %d\n", added, code > 0);
    pvm_spawn(self, args, PvmTaskHost, bare, 1, &tid);
    pvm_recv(tid, 2);
    pvm_upkint(&code, 1, 1);
    printf("on another host: %d\n", code);
    pvm_delhosts(&bare, 1, &code);
    pvm_config(&hosts, 0, 0);
    printf("%d host\n", hosts);
    pvm_getmboxinfo("###_PVM_HOSTER_###", &hosts, &boxes);
    tid = boxes[0].mi_owners[0];
    pvm_initsend(PvmDataDefault);
    pvm_send(tid, 1);
    pvm_exit();
    return 0;
}

static int elsewhere(void)
{
    int code;
    pvm_setopt(PvmAutoErr, 0);
    code = pvm_reg_hoster();
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&code, 1, 1);
    pvm_send(pvm_parent(), 2);
    pvm_exit();
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, 0, _IOLBF, 0);
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return serve(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "add"))
        return add(argv[0], argv[2]);
    return elsewhere();
}
