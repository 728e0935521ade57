/* Three tasks: the first two compute together and agree on a panel, which the third looks at and
 * steers. Exit status 0: all of it was right; else the first line that was not is named. */
#include "check.h"

static const int64_t LONG = INT64_C(60000000000);

typedef char parameter_is_56[sizeof(towpath_parameter) == 56 ? 1 : -1];
typedef char series_is_48[sizeof(towpath_series) == 48 ? 1 : -1];
typedef char shown_is_248[sizeof(towpath_shown) == 248 ? 1 : -1];
typedef char told_is_48[sizeof(towpath_told) == 48 ? 1 : -1];

static const char *const methods[] = {"tree", "paths", NULL};
static const char *const curves[] = {"mean", "greatest", NULL};

/* The same panel at each member. */
static towpath_panel *make(towpath_task *task)
{
    towpath_parameter rate = {"rate", "1/a", NULL, 0.05, -0.1, 1.0, TOWPATH_REAL, 0};
    towpath_parameter steps = {"steps", NULL, NULL, 17, 13, 20, TOWPATH_WHOLE, 0};
    towpath_parameter method = {"method", NULL, methods, 0, 0, 0, TOWPATH_CHOICE, 0};
    towpath_parameter running = {"running", NULL, NULL, 1, 0, 0, TOWPATH_SWITCH, 0};
    towpath_series error = {"error", "$", "round", curves, 0, 0, 2, 0};
    towpath_series surface = {"surface", NULL, NULL, NULL, 2, 3, 0, 0};
    towpath_panel *panel = NULL;
    uint32_t number = 9;
    CHECK(towpath_panel_new(task, "a*b", &panel) == TOWPATH_E_ARGUMENT && panel == NULL);
    OK(towpath_panel_new(task, "prices", &panel));
    OK(towpath_panel_parameter(task, panel, &rate, &number));
    CHECK(number == 0);
    CHECK(towpath_panel_parameter(task, panel, &rate, NULL) == TOWPATH_E_EXISTS);
    OK(towpath_panel_parameter(task, panel, &steps, NULL));
    steps.name = "half";
    steps.value = 17.5;
    CHECK(towpath_panel_parameter(task, panel, &steps, NULL) == TOWPATH_E_ARGUMENT);
    OK(towpath_panel_parameter(task, panel, &method, NULL));
    OK(towpath_panel_parameter(task, panel, &running, &number));
    CHECK(number == 3);
    OK(towpath_panel_series(task, panel, &error, NULL));
    OK(towpath_panel_series(task, panel, &surface, &number));
    CHECK(number == 1);
    surface.name = "huge";
    surface.rows = UINT32_MAX;
    CHECK(towpath_panel_series(task, panel, &surface, NULL) == TOWPATH_E_LIMIT);
    CHECK(towpath_panel_value(task, panel, 4, NULL) == TOWPATH_E_NOT_FOUND);
    CHECK(towpath_panel_set(task, panel, 0, 7.0) == TOWPATH_E_ARGUMENT);
    CHECK(strstr(towpath_error(task), "rate: 7 is not from -0.1 to 1") != NULL);
    return panel;
}

static int compute(towpath_task *task, towpath_team *team)
{
    towpath_panel *panel = make(task);
    double running = 1, rate = 0, pair[2] = {1, 2}, six[6] = {0, 1, 2, 3, 4, 5};
    int changed = 0, changes = 0;
    uint32_t round = 0, served = 9;
    if (towpath_team_rank(team) == 0) {
        OK(towpath_panel_push(task, panel, 0, -1, pair, 2));
        OK(towpath_panel_show(task, panel));
        CHECK(towpath_panel_show(task, panel) == TOWPATH_E_EXISTS);
        OK(towpath_panel_serve(task, panel, &served));
        CHECK(towpath_panel_push(task, panel, 0, 0, pair, 1) == TOWPATH_E_ARGUMENT);
    }
    while (running != 0) {
        OK(towpath_panel_agree(task, panel, team, &changed));
        OK(towpath_panel_value(task, panel, 3, &running));
        changes += changed;
        OK(towpath_panel_push(task, panel, 1, round++, six, 6));
    }
    OK(towpath_panel_value(task, panel, 0, &rate));
    CHECK(rate == 0.25 && changes >= 1);
    OK(towpath_panel_finish(task, panel, LONG));
    towpath_panel_free(panel);
    return 0;
}

static int look(towpath_task *task)
{
    towpath_view *view = NULL;
    towpath_shown shown;
    towpath_told told;
    char name[72];
    double last = -1;
    int code, points = 0;
    CHECK(towpath_view_open(task, "none", 0, &view) == TOWPATH_E_NOT_FOUND && view == NULL);
    while ((code = towpath_view_open(task, "prices", LONG, &view)) == TOWPATH_E_NOT_FOUND)
        towpath_wait(task, 1000000);
    OK(code);
    OK(towpath_view_parameter(task, view, 0, &shown));
    CHECK(strcmp(shown.name, "rate") == 0 && strcmp(shown.unit, "1/a") == 0);
    CHECK(shown.value == 0.05 && shown.least == -0.1 && shown.kind == TOWPATH_REAL);
    OK(towpath_view_parameter(task, view, 2, &shown));
    CHECK(shown.kind == TOWPATH_CHOICE && shown.count == 2);
    OK(towpath_view_name(task, view, &shown, 2, 1, &name));
    CHECK(strcmp(name, "paths") == 0);
    CHECK(towpath_view_name(task, view, &shown, 2, 2, &name) == TOWPATH_NONE);
    CHECK(towpath_view_parameter(task, view, 4, &shown) == TOWPATH_NONE);
    OK(towpath_view_series(task, view, 0, &shown));
    CHECK(shown.kind == TOWPATH_CURVES && shown.count == 2 && strcmp(shown.over, "round") == 0);
    OK(towpath_view_name(task, view, &shown, 0, 0, &name));
    CHECK(strcmp(name, "mean") == 0);
    OK(towpath_view_series(task, view, 1, &shown));
    CHECK(shown.kind == TOWPATH_FIELD && shown.least == 2 && shown.most == 3);
    OK(towpath_view_next(task, view, LONG, &told));
    CHECK(told.kind == TOWPATH_POINT && told.number == 0 && told.value == -1 && told.count == 2);
    CHECK(told.values[1] == 2 && told.lost == 0);
    CHECK(towpath_view_set(task, view, "rate", 2, LONG) == TOWPATH_E_ARGUMENT);
    CHECK(towpath_view_set(task, view, "no", 2, LONG) == TOWPATH_E_NOT_FOUND);
    OK(towpath_view_set(task, view, "rate", 0.25, LONG));
    OK(towpath_view_parameter(task, view, 0, &shown));
    CHECK(shown.value == 0.25);
    OK(towpath_view_set(task, view, "running", 0, LONG));
    do {
        OK(towpath_view_next(task, view, LONG, &told));
        if (told.kind == TOWPATH_POINT) {
            CHECK(told.number == 1 && told.count == 6 && told.values[5] == 5);
            CHECK(told.value > last);
            last = told.value;
            points++;
        } else if (told.kind == TOWPATH_CHANGED)
            CHECK(told.by == towpath_self(task));
    } while (told.kind != TOWPATH_OVER);
    CHECK(points > 0 && told.number == 0);
    OK(towpath_view_close(task, view));
    towpath_view_free(NULL);
    return 0;
}

int main(void)
{
    towpath_task *task = NULL;
    towpath_team *all = NULL, *team = NULL;
    char why[256] = "";
    int code = towpath_enrol(&task, why, sizeof why);
    if (code != TOWPATH_OK) {
        fprintf(stderr, "%s: %s\n", towpath_strerror(code), why);
        return 2;
    }
    OK(towpath_team_of_group(task, "three", 3, &all));
    OK(towpath_team_split(task, all, towpath_team_rank(all) / 2, 0, &team));
    code = towpath_team_rank(all) == 2 ? look(task) : compute(task, team);
    towpath_team_free(team);
    towpath_team_free(all);
    OK(towpath_leave(task));
    return code;
}
