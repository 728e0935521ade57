/* Tags of PVM's system messages, for programs that are resource manager, hoster or tasker.
   pvm_setopt(PvmResvTids, 1) lets a program send them. What is in them: PVM's manual pages
   pvm_reg_rm, pvm_reg_hoster, pvm_reg_tasker. */
#ifndef _PVMPROTO_H_
#define _PVMPROTO_H_

#define SM_FIRST ((int)0x80040001)
#define SM_SPAWN (SM_FIRST + 0)
#define SM_EXEC (SM_FIRST + 1)
#define SM_EXECACK (SM_FIRST + 2)
#define SM_TASK (SM_FIRST + 3)
#define SM_CONFIG (SM_FIRST + 4)
#define SM_ADDHOST (SM_FIRST + 5)
#define SM_DELHOST (SM_FIRST + 6)
#define SM_ADD (SM_FIRST + 7)
#define SM_ADDACK (SM_FIRST + 8)
#define SM_NOTIFY (SM_FIRST + 9)
#define SM_TASKX (SM_FIRST + 10)
#define SM_HOSTX (SM_FIRST + 11)
#define SM_HANDOFF (SM_FIRST + 12)
#define SM_SCHED (SM_FIRST + 13)
#define SM_STHOST (SM_FIRST + 14)
#define SM_STHOSTACK (SM_FIRST + 15)
#define SM_STTASK (SM_FIRST + 16)
#define SM_LAST (SM_FIRST + 16)

#endif
